"""Which processes of a head are ours: those that the capture names in it, and what these start later.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from zombiescope.core import Reading
from zombiescope.kernel.perf_changes import Exit, Fork, Record
from zombiescope.places import own_processes
from zombiescope.recorder.clock import seconds
from zombiescope.recorder.layout import OWN_PROCESS
from zombiescope.recorder.stack_series import SOURCE

MOST = 10_000  # in one head: our probes start some hundred


def ours_now() -> list[Reading]:
    """For a head that begins."""
    now = time.time()
    return [_reading(pid, 1, now, f"/proc/{pid}") for pid in own_processes.family()]


class OwnProcesses:
    """What the capture said first, then the records of forks and exits in order of time."""

    def __init__(self, tell: Callable[[Reading], object]) -> None:
        self._tell = tell
        self._pids: set[int] = set()
        self._left = MOST

    def said(self, reading: Reading) -> None:
        """By the capture."""
        pid = reading.subject.removeprefix("pid:")
        if reading.what == OWN_PROCESS and reading.value and pid.isdecimal() and len(pid) < 10:
            self._pids.add(int(pid))

    def feed(self, records: Iterable[Record], ahead: int) -> None:
        """Tell what is ours from then on, or has ended; `ahead`: unix time minus the clock of the records."""
        for it in records if self._pids else ():
            if isinstance(it, Fork) and it.parent_pid in self._pids and it.pid not in self._pids and self._left:
                self._left -= 1
                self._pids.add(it.pid)
                self._tell(_reading(it.pid, 1, seconds(it.time_ns + ahead), SOURCE))
            elif isinstance(it, Exit) and it.pid == it.tid and it.pid in self._pids:
                self._pids.discard(it.pid)
                self._tell(_reading(it.pid, 0, seconds(it.time_ns + ahead), SOURCE))


def _reading(pid: int, value: float, at: float, source: str) -> Reading:
    return Reading(what=OWN_PROCESS, subject=f"pid:{pid}", value=value, at=at, source=source)
