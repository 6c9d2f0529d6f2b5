"""/proc/PID/stat: the processes that use most CPU, and how many there are, are defunct or are blocked.

Overhead: one read for each process, 25 µs; the kernel adds up its threads, so a little more for thousands of threads.
    At most `MOST` are read in a look, the oldest first.
Kernel: do_task_stat() in fs/proc/array.c, Documentation/filesystems/proc.rst 1.2. Times are in ticks of 1/100 s
    (USER_HZ) and hold a process's dead threads too. The name may be of any bytes, parentheses included, so fields are
    counted from the last one. The state is the first thread's: a blocked thread of a process whose first thread sleeps
    is not counted here (but is in /proc/stat's procs_blocked). What is born and gone between two looks is not seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable, count

EVERY = 5.0
TIMES = ("process_user_seconds_total", "process_system_seconds_total")
GIVES = (*TIMES, "processes", "defunct_processes", "blocked_processes")
TOP = 20  # processes a look: who takes a core away is among the first few
MOST = 5_000  # processes read in a look, 0.13 s; the loop then looks less often
FOLLOWED = 500  # processes told in all: each was among the first once and still lives
_USER_HZ = 100


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    name: str
    state: str
    user: float
    system: float
    born: int  # ticks since boot: with the pid it tells a process from a later one

    @property
    def used(self) -> float:
        return self.user + self.system


_Key = tuple[int, int]  # pid and birth


@dataclass(slots=True)
class _Look:
    """One look at all processes, and under which name each of them was told that was told."""

    at: float
    processes: dict[_Key, Process]
    count: int
    told: dict[_Key, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.count <= MOST

    def before(self, key: _Key, process: Process) -> Process | None:
        """How a process stood in this look, under the name it has now; one that was born since had used nothing."""
        if (then := self.processes.get(key)) is not None:
            return replace(then, name=process.name)
        return replace(process, user=0.0, system=0.0) if self.whole else None


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the last look, to tell who used CPU since."""
    last: _Look | None = None

    def look() -> Iterator[Reading | Blind]:
        nonlocal last
        now = _seen(host)
        yield from _told(now, last)
        last = now

    yield look


def read(host: Host) -> Iterator[Reading | Blind]:
    """One look: who used most since it was born."""
    return _told(_seen(host), None)


def _seen(host: Host) -> _Look:
    at = host.now()
    pids = sorted((name for name in host.listing("/proc") if name.isdecimal()), key=lambda pid: (len(pid), pid))
    found = {}
    for pid in pids[:MOST]:
        try:
            process = parse(host.read(f"/proc/{pid}/stat"), pid)
        except Unreadable:
            continue  # it ended meanwhile
        found[process.pid, process.born] = process
    if not found:
        raise Unreadable("/proc", "no process is visible")
    return _Look(at, found, len(pids))


def _told(now: _Look, last: _Look | None) -> Iterator[Reading | Blind]:
    used = {}
    for key, one in now.processes.items():
        before = last.before(key, one) if last else replace(one, user=0.0, system=0.0)
        used[key] = one.used - before.used if before else 0.0
    first = [key for key in heapq.nlargest(TOP, used, key=lambda key: used[key]) if used[key] > 0]
    # Who was told once is told on: a counter that is silent for a while and then leaps would seem to have raced.
    told = {key: name for key, name in (last.told if last else {}).items() if key in now.processes}
    follow = [key for key in first if key not in told][: max(FOLLOWED - len(told), 0)]
    for key in (*told, *follow):
        one = now.processes[key]
        if told.get(key) != one.name and last and (before := last.before(key, one)):
            yield from _times(before, last.at)  # a new name begins where the process stood
        if told.get(key) != one.name or used[key] > 0:
            yield from _times(one, now.at)
        now.told[key] = one.name
    unfollowed = sum(key not in now.told for key in first)
    yield Reading(what=GIVES[2], subject="node", value=now.count, at=now.at, source="$ ls -d /proc/[0-9]*")
    if not now.whole:
        why = f"{now.count - MOST:,} processes more than processes.MOST were not read"
        yield from (Blind(what=what, source="/proc", why=why, subject="node") for what in TIMES)
        yield from (Blind(what=what, source="/proc", why=why) for what in GIVES[3:])
        return
    if unfollowed:
        why = f"{unfollowed} busy processes more than processes.FOLLOWED are not told"
        yield from (Blind(what=what, source="/proc", why=why, subject="node") for what in TIMES)
    for what, state in zip(GIVES[3:], "ZD", strict=True):
        inside = [one for one in now.processes.values() if one.state == state]
        text = ", ".join(f"{one.name}[{one.pid}]" for one in inside[:5])
        source = "$ ps -eo state,pid,comm"
        yield Reading(what=what, subject="node", value=len(inside), at=now.at, source=source, text=text)


def _times(process: Process, at: float) -> Iterator[Reading]:
    subject, source = f"process:{process.name}[{process.pid}]", f"/proc/{process.pid}/stat"
    for what, seconds in zip(TIMES, (process.user, process.system), strict=True):
        yield Reading(what=what, subject=subject, value=seconds, at=at, source=source)


# 1 (systemd) S 0 1 1 0 -1 4194560 70318 2116398 91 1233 212 478 4713 2206 20 0 1 0 7 173817856 3229 …
# 2811 (a) b) R 2810 2811 2810 34816 2811 4194304 95 0 0 0 150 3 0 0 20 0 1 0 88123 …
def parse(text: str, pid: str = "PID") -> Process:
    head, closed, tail = text.rpartition(")")
    number, opened, name = head.partition(" (")
    fields = tail.split()
    try:
        if not closed or not opened or len(fields) < 20 or len(fields[0]) != 1:
            raise ValueError
        user, system = count(fields[11]) / _USER_HZ, count(fields[12]) / _USER_HZ
        return Process(count(number), name, fields[0], user, system, count(fields[19]))
    except ValueError:
        raise Unparsable(f"/proc/{pid}/stat", 1, text) from None
