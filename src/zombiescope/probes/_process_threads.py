"""Threads of the busiest processes: the line of a process shows its first thread only and hides a real-time one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.probes._process_stat import Process, parse

PRIORITY, CORE, USED = "thread_realtime_priority", "thread_realtime_cpu", "thread_realtime_seconds_total"
GIVES = (PRIORITY, CORE, USED)
READ = 200  # threads in a sample, 25 µs each


def told(host: Host, at: float, busy: Iterable[Process]) -> Iterator[Reading | Blind]:
    left = READ
    for process in busy:
        if process.threads <= 1:
            continue
        if process.threads > left:
            why = f"{process.threads:,} threads are more than the {READ} read in a sample"
            source = f"/proc/{process.pid}/task"
            yield from (Blind(what=what, source=source, why=why, subject=process.subject) for what in GIVES)
            continue
        left -= process.threads
        yield from _realtime(host, at, process)


def _realtime(host: Host, at: float, process: Process) -> Iterator[Reading | Blind]:
    try:
        threads = host.listing(f"/proc/{process.pid}/task")
    except Unreadable:
        return  # it has exited
    for number in threads[:READ]:
        source = f"/proc/{process.pid}/task/{number}/stat"
        try:
            thread = parse(host.read(source), f"{process.pid}/task/{number}")
        except Unreadable:
            continue
        except Unparsable as error:
            yield Blind(what=PRIORITY, source=source, why=error.why, subject=process.subject)
            continue
        if (realtime := thread.realtime) is None:
            continue
        priority, policy = realtime
        subject, text = f"thread:{thread.name}[{thread.pid}]", f"{policy}, of {process.name}[{process.pid}]"
        for what, value in zip(GIVES, (priority, thread.cpu, thread.used), strict=True):
            yield Reading(what=what, subject=subject, value=value, at=at, source=source, text=text)
