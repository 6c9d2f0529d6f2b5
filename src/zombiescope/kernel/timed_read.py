"""Read one file and time it, on a core where it does the least harm: not on one that serves a network card.

Reading a statistics file of the root cgroup may keep interrupts off on its core for seconds, which is the very harm we
look for. So it is read once, by a thread on the core with the fewest interrupts of network cards.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from typing import NamedTuple

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.kernel.text import cores, lines

LIMIT = 30.0  # seconds: the longest read that was measured took 5 s, with 70,000 dying cgroups
ISOLATED = "/sys/devices/system/cpu/isolated"
NOHZ_FULL = "/sys/devices/system/cpu/nohz_full"  # "(null)" or empty where the kernel was started without it
_PF_KTHREAD = 0x00200000  # of include/linux/sched.h: migration and watchdog threads run for microseconds


class TimedRead(NamedTuple):
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

    # Affinity is per thread. A daemon: a read that never ends must not keep us from exiting.
    thread = threading.Thread(target=work, name="timed_read", daemon=True)
    thread.start()
    thread.join(LIMIT)
    if not result:
        raise Unreadable(path, f"not read within {LIMIT:g} s on core {core}")
    if isinstance(result[0], Unreadable):
        raise result[0]
    return result[0]


def quietest_core(host: Host) -> int:
    """The core we may use that took the fewest interrupts of network cards since boot.

    Never one that is isolated or without a tick (somebody's own, kept free of others), nor one on which real-time
    threads use the CPU: there we would wait for them, or they for us.
    """
    allowed = sorted(os.sched_getaffinity(0) - reserved_cores(host) - _realtime_busy(host))
    if not allowed:
        raise Unreadable(ISOLATED, "every core that we may use is isolated or busy with real-time threads")
    try:
        served = network_interrupts(host.read("/proc/interrupts"), _network_irqs(host))
    except Unreadable:
        return allowed[-1]
    return min(allowed, key=lambda core: (served.get(core, 0), -core))


def reserved_cores(host: Host) -> set[int]:
    """Cores that an administrator set apart: isolcpus=, nohz_full=."""
    found: set[int] = set()
    for path in (ISOLATED, NOHZ_FULL):
        with suppress(Unreadable, Unparsable):
            found |= set(cores(host.read(path).replace("(null)", ""), path))
    return found


def _realtime_busy(host: Host) -> set[int]:
    """Cores on which a real-time thread of a program is running or waits to run, now."""
    found: set[int] = set()
    try:
        pids = host.pids()
    except Unreadable:
        return found
    for pid in pids:
        with suppress(Unreadable, IndexError, ValueError):
            # pid (comm) state … 39: processor, 40: rt_priority, 41: policy; after the name, field 3 is the first.
            fields = host.read(f"/proc/{pid}/stat", most=4096).rpartition(")")[2].split()
            kernel_thread = int(fields[6]) & _PF_KTHREAD
            if fields[0] == "R" and int(fields[37]) > 0 and not kernel_thread:
                found.add(int(fields[36]))
    return found


def network_interrupts(text: str, irqs: set[str]) -> dict[int, int]:
    """How often these interrupts came on each core, from /proc/interrupts."""
    head, *rows = lines(text) or [""]
    known = [int(name[3:]) for name in head.split() if re.fullmatch(r"CPU\d{1,6}", name)]
    served = dict.fromkeys(known, 0)
    for row in rows:
        irq, _, rest = row.partition(":")
        fields = rest.split()
        if irq.strip() in irqs or irqs & set(fields[len(known) :]):
            for core, times in zip(known, fields, strict=False):
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
