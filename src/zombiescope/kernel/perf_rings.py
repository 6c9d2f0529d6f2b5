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
import fcntl
import mmap
import os
import select
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import NamedTuple

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.perf_open import SOURCE, Event, blindness, refusal, richest
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
# The longest record that can be missing from a ring for lack of space: a path of 4 KB, or 127 + 127 addresses.
LONGEST = 8192
_ENABLE = 0x2400  # PERF_EVENT_IOC_ENABLE
_LOCK, _ENABLED, _RUNNING, _HEAD, _TAIL = 8 // 8, 24 // 8, 32 // 8, 1024 // 8, 1032 // 8  # struct perf_event_mmap_page


class Drained(NamedTuple):
    """What one ring had."""

    cpu: int
    content: bytes  # records as the kernel wrote them
    lost: int  # since the last time, as its event counted; the records themselves may report the same loss later
    damage: Unparsable | None
    share: float = 1.0  # of the time in which the event counted: less if there are too few counters for all events


class Ring:
    """An event that counts, and its records. `size` is a power of two, at least a page."""

    def __init__(self, event: Event, cpu: int, size: int) -> None:
        self.size = size
        self.lost = 0  # since the beginning, as the event itself has counted
        self._last_head = -1
        self._last_times, self._last_share = (0, 0), 1.0
        self._counts_lost = event.counts_lost
        self._descriptor = event.open(cpu, wake_at=size // 4 * 3)
        try:
            self._mapped = mmap.mmap(self._descriptor, mmap.PAGESIZE + self.size)
        except OSError as error:
            os.close(self._descriptor)
            why = f"a ring of {self.size >> 10} KB cannot be mapped ({(error.strerror or '').lower()})"
            cure = "it needs CAP_IPC_LOCK, a greater kernel.perf_event_mlock_kb, or a smaller ring"
            raise Unreadable(SOURCE, f"{why}: {cure}") from None
        self._raw = memoryview(self._mapped)
        # Loads and stores of a whole word are atomic; of single bytes, as struct may do them, they are not.
        self._words = self._raw[: mmap.PAGESIZE].cast("Q")
        self._data = self._raw[mmap.PAGESIZE :]
        fcntl.ioctl(self._descriptor, _ENABLE, 0)

    @property
    def head(self) -> int:
        """How many bytes the kernel has written since the beginning."""
        return self._words[_HEAD]

    def copy(self, head: int) -> bytes:
        """What is unread, up to a head read before."""
        return unwrap(self._data, self._words[_TAIL], head)

    def release(self, head: int) -> None:
        """Allow the kernel to overwrite everything up to head."""
        self._words[_TAIL] = head

    def fileno(self) -> int:
        """For poll(2): readable when the ring is three quarters full."""
        return self._descriptor

    def count_lost(self, unread: int) -> int:
        """Records lost since the last call, as the event itself has counted them; 0 where it does not (before v6.0).

        The kernel reports a loss in the ring, too, but with the next record that fits: a ring that stays full reports
        nothing. The event is read only if its ring was too full for a record, as reading it interrupts its core.
        """
        if not self._counts_lost or unread <= self.size - LONGEST:
            return 0
        before, self.lost = self.lost, max(self.lost, self._read()[1])
        return self.lost - before

    def counts(self) -> bool:
        """Whether the event still counts: it wrote something since the last call, or two reads of it differ.

        The clock counts on idle cores too, and for cycles the read itself wakes the core. It is the last resort: each
        read interrupts the core and waits for it, 5 ms on a busy virtual machine.
        """
        head, self._last_head = self._last_head, self.head
        return head != self._last_head or self._read()[0] != self._read()[0]

    def share(self) -> float:
        """The part of the time since the last call in which the event counted: less than 1 if counters are short.

        The kernel writes both times beside the ring when a sample is made or counters change hands. A lock that has
        changed says that it was writing just then: the next call will know.
        """
        words = self._words
        lock = words[_LOCK]
        times = words[_ENABLED], words[_RUNNING]
        enabled, running = (now - before for now, before in zip(times, self._last_times, strict=True))
        if words[_LOCK] == lock and enabled > 0 and 0 <= running <= enabled:
            self._last_times, self._last_share = times, running / enabled
        return self._last_share

    # The count and, where offered, how many records were lost. An event that cannot be scheduled reads as nothing.
    def _read(self) -> tuple[int, int]:
        count, lost = struct.unpack("=QQ", os.read(self._descriptor, 16).ljust(16, b"\0"))
        return count, lost

    def close(self) -> None:
        for view in (self._words, self._data, self._raw):
            view.release()
        self._mapped.close()
        os.close(self._descriptor)


def unwrap(ring: memoryview, tail: int, head: int) -> bytes:
    """The bytes between tail and head, both counted since the start, of a ring that wraps around."""
    size = len(ring)
    if not 0 <= head - tail <= size:
        raise Unparsable(SOURCE, tail, f"the ring has {size} bytes but claims {head - tail} unread ones")
    first, last = tail % size, head % size
    if head == tail or first < last:
        return bytes(ring[first:last])
    return bytes(ring[first:]) + bytes(ring[:last])


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
        woken = self._poll.poll(seconds if seconds > 0 else 0, 16)  # its room is allocated each time
        if not woken:
            return False
        for descriptor, what in woken:
            if what & (select.EPOLLHUP | select.EPOLLERR):  # it will not be silent again: its core is gone
                with suppress(OSError):
                    self._poll.unregister(descriptor)
        return True

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

    def hand_over(self, take: Callable[[Event, list[Drained]], object]) -> int:
        """The same to somebody else, with how it was sampled; how many were lost."""
        drained = self.drain()
        take(self.event, drained)
        return sum(it.lost for it in drained)

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
