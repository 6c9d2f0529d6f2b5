"""What the agent costs with all its processes, and how long it waits between looks to keep to its budget."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence

from zombiescope.agent.budget import Account, cpu_of, memory_of
from zombiescope.agent.children import Child
from zombiescope.agent.settings import Settings


class Cost:
    """Of this process and its children."""

    def __init__(self, children: Sequence[Child], every: float) -> None:
        self._children = children
        self.every = every  # seconds from one look to the next
        self.memory: dict[str, int] = {}  # bytes, by process; as of the last look
        self._looks = 0.0
        self._account = Account(time.monotonic())
        self._spent: tuple[float, float, float] | None = None  # when, CPU of all, CPU of looks: at the last look

    @property
    def cpu_seconds(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(cpu_of(it.pid) for it in self._children if it.up)
        return time.process_time() + ended.ru_utime + ended.ru_stime + alive

    def looked(self, cpu: float, settings: Settings, served: float = 0.0) -> bool:
        """After a look that took so much; a failed one costs too. Whether the next one is late for the first time.

        `served`: CPU seconds that clients have asked for; they do not come out of the budget.
        """
        self._looks += cpu
        running = [("agent", os.getpid()), *((it.name, it.pid) for it in self._children)]
        self.memory = {name: memory_of(pid) for name, pid in running if pid}
        now, spent = time.monotonic(), self.cpu_seconds - served
        # What it cost to start does not come again.
        at, before, looks_before = self._spent or (now, spent, self._looks)
        others = (spent - before - (self._looks - looks_before)) / max(now - at, 1.0)
        self._spent = (now, spent, self._looks)
        was, wanted = self.every, settings.every
        self._account.looked(now, cpu, others=others, budget=settings.budget)
        self.every = self._account.pause(wanted, settings.window, cpu)
        return self.every > wanted * 1.5 and was <= wanted * 1.5
