"""/proc/PID/schedstat of kernel threads that others depend on: how long each ran, and how long it waited to run.

While a ksoftirqd or napi thread waits for a core, its network queue is not emptied.

Overhead: one read a thread and sample, 15 µs; one thread a core on a node without threaded NAPI. Once a minute the
    names of all kernel threads are read again, 20 µs each: about 50 ms on 256 cores. At most `MOST` are followed.
Kernel: proc_pid_schedstat() in fs/proc/base.c: time on a core, time waiting for one (both ns), number of turns. All
    three are 0 where the kernel does not count; a kernel without CONFIG_SCHEDSTATS counts only with delayacct, which
    is off by default since e4042ad49235 ("delayacct: Default disabled", in v5.14). Kernel threads are the children of
    kthreadd, listed in /proc/2/task/2/children with CONFIG_PROC_CHILDREN (since v4.2; v3.5 with checkpoint/restore);
    without it /proc is searched once, and a thread that starts later is not seen. Before d6986ce24fc0 ("kthread:
    dynamically allocate memory to store kthread's full name", in v5.17) names are cut to 15 characters, so
    several threads may share one; they are then distinguished by pid.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.held_files import HeldFiles
from zombiescope.kernel.text import count

EVERY = 1.0
WITNESS = Witness.KERNEL
TIMES = ("thread_run_seconds_total", "thread_run_delay_seconds_total")
GIVES = (*TIMES, "thread_cpu")
CURVES = (("softirq threads waiting", "share", "thread_run_delay_seconds_total", "most"),)
MOST = 1_024  # threads followed: ksoftirqd and a napi thread for each of 512 queues
RENEWED = 60.0  # seconds: a card reset or a core that comes online creates new threads
WAITED = 0.01  # seconds within a sample: less harms nothing, and is not worth another read
_ROAMING = ("napi/", "irq/")
KTHREADD = "/proc/2"
CHILDREN = f"{KTHREADD}/task/2/children"
# Threads whose delay others feel: softirqs, packets, threaded interrupts, RCU grace periods, reclaim.
_CHOSEN = re.compile(
    r"ksoftirqd/\d+|napi/.+|irq/\d+-.+|rcu_preempt|rcu_sched|rcuc/\d+|kswapd\d+|kcompactd\d+", re.DOTALL
)
Threads = dict[str, str]  # pid: name


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the list of threads."""
    threads: Threads = {}
    waited: dict[str, float] = {}
    due = float("-inf")
    with HeldFiles(host) as files:

        def look() -> Iterator[Reading | Blind]:
            nonlocal threads, due
            if time.monotonic() >= due:
                threads = _renewed(host, threads)
                due = time.monotonic() + RENEWED
            yield from _told(files, threads, waited)

        yield look


def read(host: Host) -> Iterator[Reading | Blind]:
    with HeldFiles(host) as files:
        yield from _told(files, _renewed(host, {}), {})


def _told(files: HeldFiles, threads: Threads, waited: dict[str, float]) -> Iterator[Reading | Blind]:
    found: dict[str, tuple[float, float]] = {}
    missed = Unreadable(CHILDREN, "none of the kernel threads to follow exists")
    at = files.host.now()
    for pid in list(threads)[:MOST]:
        try:
            line = files.read(f"/proc/{pid}/schedstat")
            found[pid] = parse(line.decode("utf-8", "surrogateescape"), pid)
        except Unreadable as error:
            missed = error  # it has exited, and is forgotten when the list is renewed
    files.sampled()
    if not found:
        raise missed
    if not any(any(times) for times in found.values()):
        raise Unreadable(
            f"/proc/{next(iter(found))}/schedstat", "this kernel does not count run delay: boot with delayacct"
        )
    sharing = Counter(threads.values())
    for pid, times in found.items():
        name = threads[pid] if sharing[threads[pid]] == 1 else f"{threads[pid]}[{pid}]"
        for what, seconds in zip(TIMES, times, strict=True):
            source = f"/proc/{pid}/schedstat"
            yield Reading(what=what, subject=f"thread:{name}", value=seconds, at=at, source=source)
        # A thread bound to a core has its number in the name; for others the core matters only while they wait.
        if name.startswith(_ROAMING) and times[1] - waited.get(pid, 0.0) > WAITED:
            yield from _core(files.host, pid, f"thread:{name}", at)
        waited[pid] = times[1]
    if len(threads) > MOST:
        why = f"{len(threads) - MOST:,} threads more than thread_delay.MOST are not followed"
        yield from (Blind(what=what, source=CHILDREN, why=why, subject="node") for what in TIMES)


def _core(host: Host, pid: str, subject: str, at: float) -> Iterator[Reading | Blind]:
    """Where it ran last, which is where it waits: field 39."""
    source = f"/proc/{pid}/stat"
    try:
        core = count(host.read(source).rpartition(")")[2].split()[36])
    except Unreadable:
        return  # it has exited
    except (ValueError, IndexError):
        yield Blind(what=GIVES[2], source=source, why="shows no core", subject=subject)
        return
    yield Reading(what=GIVES[2], subject=subject, value=core, at=at, source=source)


def _renewed(host: Host, known: Threads) -> Threads:
    """The kernel threads to follow; where the kernel does not list them, the known ones that still exist."""
    if (name := host.read(f"{KTHREADD}/comm").strip()) != "kthreadd":
        raise Unreadable(f"{KTHREADD}/comm", f"is {name!r}, not kthreadd: only a container's processes are visible")
    try:
        pids = parse_children(host.read(CHILDREN))
    except Unreadable:
        pids = list(known) if known else [pid for pid in _all_pids(host) if _made_by_kthreadd(host, pid)]
    found = {}
    for pid in pids:
        try:
            name = host.read(f"/proc/{pid}/comm").removesuffix("\n")
        except Unreadable:
            continue  # it has exited
        if _CHOSEN.fullmatch(name):
            found[pid] = name
    return found


def _all_pids(host: Host) -> list[str]:
    return sorted(host.pids(), key=lambda pid: (len(pid), pid))


def _made_by_kthreadd(host: Host, pid: str) -> bool:
    """A program can choose any name for itself, but not kthreadd as its parent."""
    try:
        return host.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1:2] == ["2"]
    except Unreadable:
        return False


# 3 4 5 6 7 8 10 12 13 14 15 16
def parse_children(text: str) -> list[str]:
    try:
        return [str(count(pid)) for pid in text.split()]
    except ValueError:
        raise Unparsable(CHILDREN, 1, text) from None


# 5671 307553 2
def parse(text: str, pid: str = "PID") -> tuple[float, float]:
    """Seconds on a core and seconds waiting for one."""
    try:
        run, delay, _turns = map(count, text.split())
        return run / 1e9, delay / 1e9
    except ValueError:
        raise Unparsable(f"/proc/{pid}/schedstat", 1, text) from None
