"""What generated nodes are made of: processes, and samples as a reader of segments takes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is among the busiest, or waits."""

    name: str
    pid: int
    user: float = 0.0  # cores
    system: float = 0.0
    delay: float = 0.0  # seconds of each second that its first thread waits to run
    cpu: int = 0
    children: float = 0.0  # cores' worth of time of its children that ended
    priority: str = ""  # "SCHED_FIFO 50"

    @property
    def subject(self) -> str:
        return f"process:{self.name}[{self.pid}]"
