"""/proc/PID/stat: processes that use most CPU, have real-time priority, wait, or do not reap their children.

Overhead: one read for each process, 15 µs for the oldest, whose files are held open, 25 µs for others; the kernel adds
    up its threads, so a little more for thousands of threads.
    At most `MOST` are read in a sample, the oldest first. Waiting and blocked processes and the threads of the busiest
    take another 1 to 2 ms; at worst 50 reads of schedstat, 50 of status and 200 of threads, 22 ms.
Kernel: do_task_stat() in fs/proc/array.c, Documentation/filesystems/proc.rst 1.2. Times are in ticks of 1/100 s
    (USER_HZ) and include threads that have exited. The name may hold any bytes, parentheses included, so fields are
    counted from the last one. State, policy, last core, schedstat and context switches are the first thread's: other
    threads are read by turns, of the busiest processes only. A process that starts and exits between two samples is not
    seen. Time throttled by a CPU quota counts as waiting to run. wchan and cgroup need the right to trace the process.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.held_files import HeldFiles
from zombiescope.kernel.text import count
from zombiescope.probes import _process_threads, _process_waits
from zombiescope.probes._process_stat import Process, parse
from zombiescope.probes._process_threads import Threads
from zombiescope.probes._process_waits import Blockade, RunDelay

EVERY = 6.0
WITNESS = Witness.KERNEL
TIMES = ("process_user_seconds_total", "process_system_seconds_total")
COUNTS = ("defunct_processes", "blocked_processes", "defunct_children")
STOPPED = "stopped_processes"
CHILDREN, REALTIME, LIMIT = "process_children_seconds_total", "process_realtime_priority", "pid_limit"
INIT = "process_is_init"
GIVES = (
    *(*TIMES, "processes", *COUNTS, STOPPED, CHILDREN, REALTIME, LIMIT, INIT),
    *(*_process_waits.GIVES, *_process_threads.GIVES),
)
TOP = 20  # processes a sample: one that takes a whole core is among the first few
MOST = 5_000  # processes read in a sample, 0.13 s; the loop then samples less often
FOLLOWED = 500  # processes reported in all: each was among the busiest once and is still alive
PARENTS = 3  # a sample, by CPU time of their children: one whose children fill a node is the first
THREADED = 5  # busiest processes whose threads are read
_ODD = 20  # processes whose damaged line is reported
_PID_MAX = "/proc/sys/kernel/pid_max"
_Key = tuple[int, int]  # pid and birth


@dataclass(slots=True)
class _Look:
    """One sample of all processes, and the name under which each reported one was reported."""

    at: float
    processes: dict[_Key, Process]
    count: int
    odd: dict[str, str] = field(default_factory=dict)  # by pid: why its line is not understood
    told: dict[_Key, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.count <= MOST

    def before(self, key: _Key, process: Process) -> Process | None:
        """A process as in this sample, under the name it has now; one that started later had used nothing."""
        if (then := self.processes.get(key)) is not None:
            return then if then.name == process.name else then._replace(name=process.name)
        return process._replace(user=0.0, system=0.0, children=0.0) if self.whole else None


@dataclass(slots=True)
class _Memory:
    """What is kept from sample to sample."""

    last: _Look | None = None
    delay: RunDelay = field(default_factory=RunDelay)
    blockade: Blockade = field(default_factory=Blockade)
    threads: Threads = field(default_factory=Threads)
    defunct: dict[_Key, float] = field(default_factory=dict)  # since which sample
    realtime: set[_Key] = field(default_factory=set)
    leaving: dict[int, str] = field(default_factory=dict)  # parents reported to have zombie children
    parsed: dict[bytes, Process] = field(default_factory=dict)  # by their line: most processes did not run in between


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the last sample, to find who used CPU since, and who still waits or is still a zombie."""
    memory = _Memory()
    with HeldFiles(host) as files:
        yield lambda: _look(files, memory)


def read(host: Host) -> Iterator[Reading | Blind]:
    """One sample: the processes that used most CPU since they started."""
    with HeldFiles(host) as files:
        yield from _look(files, _Memory())


def _look(files: HeldFiles, memory: _Memory) -> Iterator[Reading | Blind]:
    host, now = files.host, _seen(files, memory)
    last, memory.last = memory.last, now
    for pid, why in now.odd.items():
        yield Blind(what=TIMES[0], source=f"/proc/{pid}/stat", why=why, subject=f"process:[{pid}]")
    used = _used(now, last)
    first = [key for key in heapq.nlargest(TOP, used, key=lambda key: used[key]) if used[key] > 0]
    yield from _users(now, last, used, first)
    busiest = [now.processes[key] for key in first]
    yield from _realtime(now, memory, busiest)
    yield from _inits(host, now.at, busiest)
    threaded = [it for it in busiest if it.threads > 1][:THREADED]
    yield from memory.threads.told(files, now.at, threaded)
    yield from memory.delay.told(files, now.at, now.processes, first)
    files.sampled()
    if last:
        yield from _parents(now, last)
    try:
        limit = count(host.read(_PID_MAX).strip())
        yield Reading(what=LIMIT, subject="node", value=limit, at=now.at, source=_PID_MAX)
    except (Unreadable, ValueError) as error:
        why = error.why if isinstance(error, Unreadable) else "not a number"
        yield Blind(what=LIMIT, source=_PID_MAX, why=why)
    yield Reading(what="processes", subject="node", value=now.count, at=now.at, source="$ ls -d /proc/[0-9]*")
    if not now.whole:
        why = f"{now.count - MOST:,} processes more than processes.MOST were not read"
        yield from (Blind(what=what, source="/proc", why=why, subject="node") for what in (*TIMES, CHILDREN))
        yield from (Blind(what=what, source="/proc", why=why) for what in (*COUNTS, STOPPED))
        return
    yield from _counts(now)
    blocked = {key: it for key, it in now.processes.items() if it.state == "D"}
    yield from memory.blockade.told(host, now.at, blocked | memory.threads.blocked)
    yield from _defunct(now, memory, first_look=last is None)


def _seen(files: HeldFiles, memory: _Memory) -> _Look:
    at = files.host.now()
    pids = files.host.pids()
    pids.sort(key=len)  # they are sorted as words
    found, before, memory.parsed = {}, memory.parsed, {}
    odd: dict[str, str] = {}
    read, parsed = files.read, memory.parsed
    for pid in pids[:MOST]:
        try:
            line = read(f"/proc/{pid}/stat")
        except Unreadable:
            continue  # it has exited
        try:
            process = before.get(line) or parse(line.decode("utf-8", "surrogateescape"), pid)
        except Unparsable as error:
            if len(odd) < _ODD:
                odd[pid] = error.why
            continue  # damaged in a copied root: it costs that process
        found[process.key] = parsed[line] = process
    if not found:
        raise Unreadable("/proc", next(iter(odd.values()), "no process is visible"))
    return _Look(at, found, len(pids), odd)


def _used(now: _Look, last: _Look | None) -> dict[_Key, float]:
    """CPU used since the last sample by those that ran; one that started since had used nothing, if all were read."""
    before = last.processes if last else {}
    newborn = last is None or last.whole
    return {
        key: one.used - then.used if then else one.used * newborn
        for key, one in now.processes.items()
        if (then := before.get(key)) is not one  # the same line is the same object
    }


def _users(now: _Look, last: _Look | None, used: Mapping[_Key, float], first: list[_Key]) -> Iterator[Reading | Blind]:
    # A process reported once stays reported: a counter with a gap and then a leap would look like a burst.
    told = {key: name for key, name in (last.told if last else {}).items() if key in now.processes}
    follow = [key for key in first if key not in told][: max(FOLLOWED - len(told), 0)]
    for key in (*told, *follow):
        one = now.processes[key]
        if told.get(key) != one.name and last and (before := last.before(key, one)):
            yield from _times(before, last.at)  # a new name starts from the process's last values
        if told.get(key) != one.name or used.get(key, 0.0) > 0:
            yield from _times(one, now.at)
        now.told[key] = one.name
    if now.whole and (unfollowed := sum(key not in now.told for key in first)):
        why = f"{unfollowed} busy processes more than processes.FOLLOWED are not reported"
        yield from (Blind(what=what, source="/proc", why=why, subject="node") for what in TIMES)


def _times(process: Process, at: float) -> Iterator[Reading]:
    source = f"/proc/{process.pid}/stat"
    for what, seconds in zip(TIMES, (process.user, process.system), strict=True):
        yield Reading(what=what, subject=process.subject, value=seconds, at=at, source=source)


def _inits(host: Host, at: float, busiest: list[Process]) -> Iterator[Reading]:
    """Which of the busiest is PID 1 of a container, by its last number in NSpid: a node may itself be a container."""
    for process in (it for it in busiest if it.name in ("systemd", "init") and it.pid != 1):
        source = f"/proc/{process.pid}/status"
        try:
            numbers = _process_waits.parse_status(host.read(source), source).get("NSpid", "").split()
        except (Unreadable, Unparsable):
            continue  # it has exited
        if numbers[-1:] == ["1"]:
            yield Reading(what=INIT, subject=process.subject, value=1, at=at, source=source)


def _realtime(now: _Look, memory: _Memory, busiest: list[Process]) -> Iterator[Reading]:
    """Which of the busiest have a real-time policy, and which no longer do. Threads: see _process_threads."""
    found = {it.key: it.realtime for it in busiest if it.realtime and it.threads <= 1}
    known = {key: now.processes[key].realtime for key in memory.realtime if key in now.processes}
    over = {key: (0, "SCHED_OTHER") for key, realtime in known.items() if realtime is None}
    for key, (priority, policy) in {**found, **over}.items():
        subject, source = now.processes[key].subject, f"/proc/{key[0]}/stat"
        yield Reading(what=REALTIME, subject=subject, value=priority, at=now.at, source=source, text=policy)
    memory.realtime = {*found, *known} - over.keys()


def _parents(now: _Look, last: _Look) -> Iterator[Reading]:
    """Parents whose reaped children used most CPU since the last sample: the values before and now."""
    rises: dict[_Key, tuple[float, Process]] = {}
    for key, one in now.processes.items():
        if last.processes.get(key) is one:
            continue  # its line is as it was
        if one.children and (before := last.before(key, one)) and one.children > before.children:
            rises[key] = one.children - before.children, before
    for key in heapq.nlargest(PARENTS, rises, key=lambda key: rises[key][0]):
        for process, at in ((rises[key][1], last.at), (now.processes[key], now.at)):
            source = f"/proc/{process.pid}/stat"
            yield Reading(what=CHILDREN, subject=process.subject, value=process.children, at=at, source=source)


def _counts(now: _Look) -> Iterator[Reading]:
    odd = [it for it in now.processes.values() if it.state in "ZDT"]
    inside = {
        COUNTS[0]: [it for it in odd if it.defunct],
        COUNTS[1]: [it for it in odd if it.state == "D"],
        STOPPED: [it for it in odd if it.state == "T"],
    }
    for what, found in inside.items():
        text, source = _names(found), "$ ps -eo state,pid,ppid,comm"
        yield Reading(what=what, subject="node", value=len(found), at=now.at, source=source, text=text)


def _defunct(now: _Look, memory: _Memory, *, first_look: bool) -> Iterator[Reading | Blind]:
    """By parent, children that were zombies in the last sample too: a zombie for a moment is normal."""
    dead = {key: it for key, it in now.processes.items() if it.defunct}
    if first_look:
        memory.defunct = dict.fromkeys(dead, now.at)
        yield Blind(what=COUNTS[2], source="/proc", why="only one sample; zombies that stay need two")
        return
    kept = {key: memory.defunct[key] for key in dead if key in memory.defunct}
    memory.defunct = {key: kept.get(key, now.at) for key in dead}
    left = Counter(dead[key].parent for key in kept)
    names = {it.pid: it.subject for it in now.processes.values() if it.pid in left}
    for parent, subject in memory.leaving.items():
        if parent not in left:
            yield _children(parent, subject, 0, now.at)
    memory.leaving = {parent: names.get(parent, f"process:?[{parent}]") for parent in left}
    for parent, subject in memory.leaving.items():
        mine = [key for key in kept if dead[key].parent == parent]
        longest = now.at - min(kept[key] for key in mine)
        text = f"{_names([dead[key] for key in mine])}; for {longest:.0f} s or more"
        yield _children(parent, subject, left[parent], now.at, text)


def _children(parent: int, subject: str, value: int, at: float, text: str = "") -> Reading:
    source = f"$ ps --ppid {parent} -o state,pid,etimes,comm"
    return Reading(what=COUNTS[2], subject=subject, value=value, at=at, source=source, text=text)


def _names(processes: list[Process]) -> str:
    return ", ".join(f"{one.name}[{one.pid}]" for one in processes[:5])
