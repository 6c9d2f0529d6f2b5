"""What /proc still knows of the processes in a head: asked when it is settled, minutes after the samples.

A pid may be another process by then, or run another program: what began after the sample is not asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zombiescope.core import Host, Unreadable
from zombiescope.recorder.layout import BOOT_ID

_TICK = 10_000_000  # nanoseconds: /proc/PID/stat counts in 1/100 s on every architecture
_STARTED = 19  # fields after the name: see proc(5)


def this_boot(host: Host) -> str:
    try:
        return host.read(BOOT_ID, most=100).strip()
    except Unreadable:
        return ""


class Running:
    """The processes of this machine, as they are now."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._suspended = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()

    def since(self, pid: int, before_ns: int) -> bool:
        """Whether a process or thread was there at that time of the monotonic clock."""
        try:
            fields = self._host.read(f"/proc/{pid}/stat", most=4096).rpartition(")")[2].split()
            started = int(fields[_STARTED]) * _TICK - self._suspended
        except (Unreadable, ValueError, IndexError):
            return False
        return started <= before_ns

    def thread(self, tid: int, before_ns: int) -> str:
        """Its name; empty if it was not there at that time."""
        if not self.since(tid, before_ns):
            return ""
        try:
            return self._host.read(f"/proc/{tid}/comm", most=100).rstrip("\n")
        except Unreadable:
            return ""


@contextmanager
def not_idle() -> Iterator[None]:
    """At normal priority for a moment.

    Reading /proc/PID/maps holds that process's mmap_lock: an idle-priority reader that loses its core meanwhile would
    let the process wait for as long as everybody else runs.
    """
    policy = os.sched_getscheduler(0)
    if policy != os.SCHED_IDLE:
        yield
        return
    raised = False
    with suppress(OSError):  # then the read is as fast as it can be
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        raised = True
    try:
        yield
    finally:
        if raised:
            os.sched_setscheduler(0, policy, os.sched_param(0))
