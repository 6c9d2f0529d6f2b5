"""Not starved by the disease: who waits longer for a core than it runs gets a better nice value, until it does not.

A neighbour with 64 times our weight leaves us 3 % of a busy core: a look of 8 s took 50 s. Only nice values are used,
for as long as needed and never a real-time policy, which would make others wait as the fault does. Against another
cgroup they help only a process in the root cgroup, not a service or a pod: the administrator gives those a weight.
Where the kernel weighs whole sessions (CONFIG_SCHED_AUTOGROUP), it is the value of our session that counts.
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEPS = (-10, -19)  # 9 and 66 times the usual weight
STARVED = 0.5  # of the time that it could run
FED = 0.1
LEAST = 0.02  # seconds waited: less is no reason
LONG = 30.0  # seconds without starving before it is given back
PACE = 0.5  # seconds between two checks of a short look
AUTOGROUP = "/proc/self/autogroup"
SCHEDSTAT = "/proc/self/schedstat"  # of the main thread: nanoseconds that it ran, and that it waited


class Priority:
    """The nice value of this process."""

    def __init__(self) -> None:
        self._usual = os.getpriority(os.PRIO_PROCESS, 0)
        self._group = _group_nice()
        self._step = 0
        self._ran = self._waited = 0  # since the process began: what came before counts as well
        self._starved_at = time.monotonic()

    @property
    def waited(self) -> float:
        """Seconds that the main thread could have run, but had no core."""
        return self._waited / 1e9

    def check(self) -> None:
        ran, waited = _times()
        since_ran, since_waited = ran - self._ran, waited - self._waited
        self._ran, self._waited = ran, waited
        share = since_waited / max(1, since_ran + since_waited)
        if share > STARVED and since_waited > LEAST * 1e9:
            self._starved_at = time.monotonic()
            if self._step < len(STEPS) and self._usual >= STEPS[self._step]:
                self._set(STEPS[self._step])
                self._step += 1
        elif share < FED and self._step and time.monotonic() - self._starved_at > LONG:
            self.give_back()

    def give_back(self) -> None:
        if self._step:
            self._set(self._usual)
            self._step = 0

    def _set(self, nice: int) -> None:
        """Of every thread: the kernel keeps it for each."""
        with suppress(OSError):
            for thread in os.listdir("/proc/self/task"):
                with suppress(OSError):  # it has ended, or we may not
                    os.setpriority(os.PRIO_PROCESS, int(thread), nice)
        if self._group is not None:
            with suppress(OSError), open(AUTOGROUP, "wb", buffering=0) as file:
                file.write(str(self._group if nice == self._usual else nice).encode())


@contextmanager
def keeping_up() -> Iterator[None]:
    """For a short look: from its beginning to its end, with all that follows from it."""
    priority, over = Priority(), threading.Event()
    priority.check()

    def watch() -> None:
        while not over.wait(PACE):
            priority.check()

    watcher = threading.Thread(target=watch, name="priority", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        priority.give_back()


# /autogroup-127774 nice 0
def _group_nice() -> int | None:
    """That of our session, where the kernel weighs sessions and not processes; None where it does not."""
    try:
        with open(AUTOGROUP) as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


# 8132411 1094522 41
def _times() -> tuple[int, int]:
    try:
        with open(SCHEDSTAT) as file:
            ran, waited, _ = file.read().split()
        return int(ran), int(waited)
    except (OSError, ValueError):  # a kernel without CONFIG_SCHED_INFO
        return 0, 0
