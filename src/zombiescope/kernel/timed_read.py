"""Read one file and time it, on a core where it does the least harm: not on one that serves a network card.

Reading a statistics file of the root cgroup may keep interrupts off on its core for seconds, which is the very harm we
look for. So it is read once, by a thread on the core with the fewest interrupts of network cards.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.text import lines


@dataclass(frozen=True, slots=True)
class TimedRead:
    """How long one read took, and on which core."""

    seconds: float  # wall-clock time, as the reader experiences it
    cpu_seconds: float  # CPU time
    core: int


def timed_read(path: str, core: int) -> TimedRead:
    """Read a whole file on one core, and discard it."""
    result: list[TimedRead | Unreadable] = []

    def work() -> None:
        try:
            os.sched_setaffinity(0, {core})
            clock, spent = time.perf_counter(), time.thread_time()
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                while os.read(handle, 1 << 20):
                    pass
            finally:
                os.close(handle)
            result.append(TimedRead(time.perf_counter() - clock, time.thread_time() - spent, core))
        except OSError as error:
            result.append(Unreadable(path, (error.strerror or "").lower()))

    thread = threading.Thread(target=work, name="timed_read")  # affinity is per thread
    thread.start()
    thread.join()
    if isinstance(result[0], Unreadable):
        raise result[0]
    return result[0]


def quietest_core(host: Host) -> int:
    """The core we may use that took the fewest interrupts of network cards since boot."""
    allowed = sorted(os.sched_getaffinity(0))
    try:
        served = network_interrupts(host.read("/proc/interrupts"), _network_irqs(host))
    except Unreadable:
        return allowed[-1]
    return min(allowed, key=lambda core: (served.get(core, 0), -core))


def network_interrupts(text: str, irqs: set[str]) -> dict[int, int]:
    """How often these interrupts came on each core, from /proc/interrupts."""
    head, *rows = lines(text) or [""]
    cores = [int(name[3:]) for name in head.split() if re.fullmatch(r"CPU\d{1,6}", name)]
    served = dict.fromkeys(cores, 0)
    for row in rows:
        irq, _, rest = row.partition(":")
        fields = rest.split()
        if irq.strip() in irqs or irqs & set(fields[len(cores) :]):
            for core, times in zip(cores, fields, strict=False):
                served[core] += int(times) if times.isdecimal() and len(times) < 20 else 0
    return served


def _network_irqs(host: Host) -> set[str]:
    """Interrupts of network cards: by number where the bus lists them (PCI), else by device name (virtio)."""
    irqs: set[str] = set()
    for nic in host.listing("/sys/class/net"):
        try:
            device = os.path.basename(host.link(f"/sys/class/net/{nic}/device"))
        except Unreadable:
            continue  # lo, veth and bridges have no device and no interrupt
        irqs |= {nic, device, f"{device}-input.0", f"{device}-output.0"}
        for folder in ("device/msi_irqs", "device/../msi_irqs"):
            try:
                irqs |= set(host.listing(f"/sys/class/net/{nic}/{folder}"))
            except Unreadable:
                continue
    return irqs
