"""The rings of all cores: opened, drained as they are, and followed as cores come and go. Standard library only.

Reading costs no system call. Rings are sized in bytes, for `SECONDS` of deep stacks at their rate: a reader that
drains them once a second may be late, and poll(2) wakes it when one is three quarters full. Nothing is filtered: the
idle task is reported as well, with a softirq that may run on top of it; the reader decides by the leaf.

Overhead: the kernel takes about 25 µs for each sample on a nested virtual machine: 0.12 % of every core at 49 Hz.
Kernel: the hardware's cycles where there is a PMU: sampled by NMI on x86, so also with interrupts off, and on arm64 if
    booted with irqchip.gicv3_pseudo_nmi=1. Else the cpu-clock, a timer, which waits for interrupts (see perf_event).
"""

from __future__ import annotations

import errno
import mmap
import select
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import NamedTuple

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.perf_ring import Ring, blindness, refusal, richest
from zombiescope.kernel.text import cores

ONLINE = "/sys/devices/system/cpu/online"
SECONDS = 3.0  # of samples that a ring holds: a starved reader may come that late
DEEP = 1024  # bytes of a deep sample: some 120 addresses
# 300 processes that start and end in a second report 600 KB of mappings: on two cores such rings are drained once a
# second all the same. With its page it is as much as anybody may lock for each core (kernel.perf_event_mlock_kb, 516).
ROOMY, ROOMY_BYTES = 1 << 19, 32 << 20  # of one ring, and of all of them together
SMALLEST, MOST_BYTES = 1 << 18, 96 << 20
_SMALLEST_OF_MANY = 1 << 16  # where so many cores would be more than MOST_BYTES together
_MAX_RATE = "/proc/sys/kernel/perf_event_max_sample_rate"
_MOST_CORES = 65_536  # more than any kernel can be built for


class Drained(NamedTuple):
    """What one ring had."""

    cpu: int
    content: bytes  # records as the kernel wrote them
    lost: int  # since the last time, as its event counted; the records themselves may report the same loss later
    damage: Unparsable | None
    share: float = 1.0  # of the time in which the event counted: less if there are too few counters for all events


class Rings(Closing):
    """All cores, from now until closed. Not for use by two threads at once."""

    def __init__(self, *, hz: int = 49, user: bool = True, size: int = 0) -> None:
        if hz < 1 or size & (size - 1) or size % mmap.PAGESIZE:
            raise UserError(f"cannot sample at {hz} Hz with {size} bytes: at least 1 Hz, and a power of two of pages")
        self._wanted_size = size
        self._rings: dict[int, Ring] = {}
        self._left: list[Drained] = []  # of closed rings
        self._lock = threading.Lock()
        self._lock.acquire()
        self._poll = select.epoll()
        cpus = _online()
        with ExitStack() as undo:
            undo.callback(self.close)
            self.event = richest(cpus, _allowed(hz), user)
            self._size = size or ring_size(self.event.hz, len(cpus))
            self._open(cpus)
            undo.pop_all()
        self.blind: tuple[str, ...] = blindness(self.event, hz)

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(self._rings)

    @property
    def bytes(self) -> int:
        """Kernel memory that the rings take."""
        return sum(ring.size + mmap.PAGESIZE for ring in self._rings.values())

    def wait(self, seconds: float) -> bool:
        """Sleep, but not if a ring is three quarters full: whether that woke us."""
        woken = self._poll.poll(max(0.0, seconds), 16)  # its room is allocated each time
        for descriptor, what in woken:
            if what & (select.EPOLLHUP | select.EPOLLERR):  # it will not be silent again: its core is gone
                with suppress(OSError):
                    self._poll.unregister(descriptor)
        return bool(woken)

    def drain(self) -> list[Drained]:
        """All that came since the last call."""
        rings = [(cpu, ring, ring.head) for cpu, ring in self._rings.items()]
        self._order_memory()
        drained, self._left = self._left, []
        drained += [_copied(cpu, ring, head) for cpu, ring, head in rings]
        self._order_memory()
        for _, ring, head in rings:
            ring.release(head)
        return [it for it in drained if it.content or it.lost or it.damage]

    def change(self, *, hz: int, user: bool) -> None:
        """Sample at another rate, or with other stacks, from now on. What is unread is kept."""
        self.event = replace(self.event, hz=_allowed(hz), user=user)
        self._size = self._wanted_size or ring_size(self.event.hz, len(self._rings))
        before, self._rings = self._rings, {}
        try:
            self._open(list(before))  # before the old ones end, so that no mapping is missed
        finally:
            for cpu, ring in before.items():
                self._end(cpu, ring)

    def refresh(self) -> None:
        """Begin to sample cores that came online, and close those gone offline; their unread records are kept.

        A core that went offline and came back in between has lost its event, as the kernel detached it: the second call
        notices that it is silent and opens it again.
        """
        online = _online()
        for cpu in [cpu for cpu, ring in self._rings.items() if cpu not in online or not ring.counts()]:
            self._end(cpu, self._rings.pop(cpu))
        self._open([cpu for cpu in online if cpu not in self._rings])

    def close(self) -> None:
        while self._rings:
            self._rings.popitem()[1].close()
        self._poll.close()

    def _end(self, cpu: int, ring: Ring) -> None:
        head = ring.head
        self._order_memory()
        left = _copied(cpu, ring, head)
        # Lost records are counted as if the ring were full: this is the last chance.
        self._left.append(left._replace(lost=left.lost + ring.count_lost(ring.size)))
        with suppress(OSError):
            self._poll.unregister(ring.fileno())
        ring.close()

    def _open(self, cpus: list[int]) -> None:
        for cpu in cpus:
            try:
                self._rings[cpu] = Ring(self.event, cpu, self._size)
            except OSError as error:
                if error.errno != errno.ENODEV:  # went offline just now
                    raise refusal(error) from None
                continue
            self._poll.register(self._rings[cpu].fileno(), select.EPOLLIN)

    # The head must be read before the data, and the data before the tail is moved. Python has no memory fence, but
    # releasing a lock and taking it again acts as one.
    def _order_memory(self) -> None:
        self._lock.release()
        self._lock.acquire()


def ring_size(hz: int, cores: int) -> int:
    """Bytes of one ring: a power of two."""
    wanted = max(ROOMY if ROOMY * cores <= ROOMY_BYTES else SMALLEST, int(SECONDS * hz * DEEP))
    most = max(_SMALLEST_OF_MANY, MOST_BYTES // max(1, cores))
    size = 1 << (wanted - 1).bit_length()
    while size > most:
        size >>= 1
    return max(size, mmap.PAGESIZE)


def _copied(cpu: int, ring: Ring, head: int) -> Drained:
    try:
        content = ring.copy(head)
    except Unparsable as error:
        return Drained(cpu, b"", 0, error)
    return Drained(cpu, content, ring.count_lost(len(content)), None, ring.share())


def _allowed(hz: int) -> int:
    try:
        with open(_MAX_RATE) as file:
            return max(1, min(hz, int(file.read())))
    except (OSError, ValueError):  # then the kernel itself refuses a rate that is too high
        return hz


# 0-1,4
def _online() -> list[int]:
    try:
        with open(ONLINE) as file:
            text = file.read()
    except OSError as error:
        raise Unreadable(ONLINE, (error.strerror or "").lower()) from None
    return [cpu for cpu in cores(text, ONLINE) if cpu < _MOST_CORES]
