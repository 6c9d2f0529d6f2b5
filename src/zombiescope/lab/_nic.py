"""A driver reset without the hardware: which core serves which queue is real, the driver's log lines are injected.

No test machine has a card that can be starved for five seconds on demand. So the lines that Amazon's ENA driver logs
in that case are written to /dev/kmsg, for a queue that the core really serves. Each line says that it is injected.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.probes.nic_irqs import read

INJECTED = "(injected by zombiescope lab)"
_KMSG = "/dev/kmsg"


class Queue(NamedTuple):
    """A queue of a network card, and the core that serves it."""

    nic: str
    number: int
    core: int


def served_queue(cores: set[int]) -> Queue | None:
    """A queue that one of these cores serves; None if the machine has no network card with its own interrupts."""
    try:
        irqs = [it for it in read(Host()) if isinstance(it, Reading) and it.what == "nic_irq_cpu"]
    except (Unreadable, Unparsable):
        return None
    for irq in irqs:
        name, _, rest = irq.text.partition(" (")
        number = re.search(r"(\d+)(?:@.*)?$", name)
        nic = rest.rstrip(")") or name.partition("-")[0]
        if number is not None and int(irq.value) in cores:
            return Queue(nic, int(number[1]), int(irq.value))
    return None


def say_reset(queue: Queue, *, stuck: float = 6.0) -> None:
    """What ENA 2.17 logs when a queue was not polled for `usec`, and that it resets the card."""
    usec = round(stuck * 1e6)
    lines = (
        f"TX q {queue.number} is paused for too long (threshold 5000000). usecs since napi {usec}. napi scheduled: 1. "
        f"napi CPU: {queue.core}. msecs since interrupt: {usec // 1000}",
        "Resetting the device",
        "Device reset completed, status: 0, Driver info: 2.17.0g",
    )
    with open(_KMSG, "wb", buffering=0) as log:
        for line in lines:
            log.write(f"<3>ena 0000:00:05.0 {queue.nic}: {line} {INJECTED}\n".encode())
