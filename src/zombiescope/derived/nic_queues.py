"""Which interrupts of network cards a core serves, and whose they are."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.core.model import Reading
from zombiescope.core.timeline import Timeline


class Queue(NamedTuple):
    """An interrupt of a network card."""

    irq: str  # its number
    nic: str  # empty where the driver's name for it does not show it
    reading: Reading

    @property
    def words(self) -> str:
        return f"{self.irq} ({self.reading.text})"


def served(timeline: Timeline, cpu: int) -> list[Queue]:
    """What a core served at the last sample."""
    nics = [subject.removeprefix("nic:") for subject in timeline.subjects("nic_tx_timeouts_total", "nic")]
    return [
        Queue(it.subject.removeprefix("irq:"), _whose(it.text, nics), it)
        for it in timeline.latest("nic_irq_cpu")
        if it.value == cpu
    ]


def _whose(words: str, nics: list[str]) -> str:
    """The card that a driver's name contains; of two that fit, eth1 and eth10, the longer one."""
    return max((nic for nic in nics if nic in words), key=len, default="")
