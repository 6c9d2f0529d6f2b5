"""/proc/interrupts and /proc/irq: which core serves which queue of a network card, and transmit timeouts.

Overhead: one read and one pass over /proc/interrupts (0.1 ms on 2 cores; 40 ms for 1,200 rows of 256 cores, 512 of
    them a card's), and one small read, 25 µs, for each interrupt of a card, each of its transmit queues and each
    interface.
Kernel: show_interrupts() in kernel/irq/proc.c. effective_affinity_list, the core that the hardware really uses,
    since 0d3f54257dc3 ("genirq: Introduce effective affinity mask", in v4.13); before, and where it is empty,
    smp_affinity_list, the setting, often all cores: then the one that has served most since boot is given. PCI lists
    a card's interrupts in msi_irqs; a virtio card is named by its device (virtio2-input.0) and has them at its
    parent; a card without MSI, or of Xen, is found by its own name. tx_timeout, how often the transmit watchdog
    fired, since ccf5ff69fbbd ("net: new counter for tx_timeout errors in sysfs", in v3.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.witness import Witness
from zombiescope.kernel.text import core_columns, cores, counts, lines, only_count
from zombiescope.probes._remembering import remembered

EVERY = 6.0
WITNESS = Witness.KERNEL
GIVES = ("nic_irq_cpu", "nic_interrupts_total", "nic_tx_timeouts_total")
RENEWED = 60.0  # seconds: cards come and go seldom
MOST = 1_024  # interrupts of network cards: two cards with a queue for each of 512 cores
INTERRUPTS, NICS = "/proc/interrupts", "/sys/class/net"
_BETWEEN = re.compile(r"[-@:,.\s]+")


@dataclass(frozen=True, slots=True)
class Nic:
    """An interface with a device behind it; bridges and tunnels have none."""

    name: str
    device: str  # "virtio2", "0000:00:05.0"
    irqs: frozenset[str]  # as the bus lists them


@dataclass(frozen=True, slots=True)
class Irq:
    number: str
    by_core: dict[int, int] = field(repr=False)
    name: str  # the driver's name for it
    nic: str

    @property
    def words(self) -> str:
        return self.name if self.nic in self.name else f"{self.name} ({self.nic})"


def _told(host: Host, nics: list[Nic]) -> Iterator[Reading | Blind]:
    at = host.now()
    irqs = parse(host.read(INTERRUPTS), nics)
    for irq in irqs[:MOST]:
        yield _core(host, irq, at)
        total = sum(irq.by_core.values())
        yield Reading(what=GIVES[1], subject=f"irq:{irq.number}", value=total, at=at, source=INTERRUPTS, text=irq.words)
    for what in GIVES[:2]:
        if not irqs:
            yield Blind(what=what, source=INTERRUPTS, why="no interrupt of a network card is listed")
        if len(irqs) > MOST:
            why = f"{len(irqs) - MOST:,} interrupts more than nic_irqs.MOST are not reported"
            yield Blind(what=what, source=INTERRUPTS, why=why, subject="node")
    yield from (_timeouts(host, nic, at) for nic in nics)


def _core(host: Host, irq: Irq, at: float) -> Reading | Blind:
    subject, why = f"irq:{irq.number}", "shows no core"
    for name in ("effective_affinity_list", "smp_affinity_list"):
        source = f"/proc/irq/{irq.number}/{name}"
        try:
            text = host.read(source).strip()
            own = set(cores(text, source)) & irq.by_core.keys()
        except (Unreadable, Unparsable) as error:
            why = error.why
            continue
        if own:
            core = max(own, key=lambda one: (irq.by_core[one], -one))
            words = irq.words if len(own) == 1 else f"{irq.words}, most of cores {text}"
            return Reading(what=GIVES[0], subject=subject, value=core, at=at, source=source, text=words)
    return Blind(what=GIVES[0], source=source, why=why, subject=subject)


def _timeouts(host: Host, nic: Nic, at: float) -> Reading | Blind:
    queues, subject = f"{NICS}/{nic.name}/queues", f"nic:{nic.name}"
    source = f"{queues}/tx-0/tx_timeout"
    try:
        total = 0
        for queue in host.listing(queues):
            if queue.startswith("tx-"):
                source = f"{queues}/{queue}/tx_timeout"
                total += only_count(host.read(source), source)
    except (Unreadable, Unparsable) as error:
        return Blind(what=GIVES[2], source=error.source, why=error.why, subject=subject)
    source = f"{shown_by('cat', queues)}/tx-*/tx_timeout"
    return Reading(what=GIVES[2], subject=subject, value=total, at=at, source=source)


def _nics(host: Host) -> list[Nic]:
    found = []
    for name in host.listing(NICS):
        try:
            device = host.link(f"{NICS}/{name}/device").rpartition("/")[2]
        except Unreadable:
            continue
        irqs: set[str] = set()
        for folder in ("device/msi_irqs", "device/../msi_irqs"):  # the second is virtio's PCI function
            try:
                irqs.update(host.listing(f"{NICS}/{name}/{folder}"))
                break
            except Unreadable:
                continue
        found.append(Nic(name, device, frozenset(irqs)))
    if not found:
        raise Unreadable(NICS, "no network card: no interface has a device")
    return found


watch, read = remembered(_nics, _told, lambda: RENEWED)


#            CPU0       CPU1
#  28:    1455005          0   PCI-MSI 81921-edge      eth0-Tx-Rx-0
#  38:          0      13531 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
#  16:         28          0   IO-APIC  16-fasteoi   uhci_hcd:usb1, eth0
# NMI:          0          0   Non-maskable interrupts
def parse(text: str, nics: list[Nic]) -> list[Irq]:
    """The rows of network cards. Only these are read as numbers: other rows may be many and 256 columns wide."""
    head, *rows = lines(text) or [""]
    cores = core_columns(head, INTERRUPTS)
    by_number = {irq: nic.name for nic in reversed(nics) for irq in nic.irqs}
    by_word = {word: nic.name for nic in reversed(nics) for word in (nic.device, nic.name)}
    found = []
    for number, row in enumerate(rows, 2):
        irq, _, rest = row.partition(":")
        irq = irq.strip()
        if not irq.isdecimal():
            continue
        # Drivers' names come last, after at least two spaces, separated by commas if they share the interrupt.
        names = row.rpartition("  ")[2].strip()
        whose = by_number.get(irq)
        if whose is None and any(word in names for word in by_word):
            whose = next((by_word[word] for word in _words(names) if word in by_word), None)
        if whose is None:
            continue
        try:
            found.append(
                Irq(
                    irq, dict(zip(cores, counts(rest.split(None, len(cores))[: len(cores)]), strict=True)), names, whose
                )
            )
        except ValueError:
            raise Unparsable(INTERRUPTS, number, row) from None
    return found


def _words(names: str) -> Iterator[str]:
    """The parts of a driver's name that may name a card: ens1f0 of "iavf-ens1f0-TxRx-3", virtio2, or all of it."""
    yield names
    yield from _BETWEEN.split(names)
