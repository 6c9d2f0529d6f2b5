"""Which file was mapped where, in which process, and when: turns an address of a process into an offset in a file.

The kernel reports each executable mapping made while we sample (perf_records.Mmap); earlier ones are read from
/proc/PID/maps, once for each process that appears in a sample, and aside: it waits for a lock of that process, which
may be held for as long as a dead file system does not answer. Unmapping is not reported: an address is looked up in
what was last mapped there.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from zombiescope.kernel.aside import PATIENCE, Aside
from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Mmap, Record
from zombiescope.naming.regions import LAST_PAGE_OF_CALLS, VSYSCALL, Region, parse_maps

# A full node has about 2,000 processes; the rest is for those that exited a moment ago.
MOST_PROCESSES = 8192
# About 300 bytes each, so 60 MB at the worst. A Java or Python process has 20 to 200.
MOST_REGIONS = 200_000
# Reading /proc/PID/maps holds a lock of that process, for about 1 ms if it has 1,000 mappings.
SNAPSHOTS = 16
_GONE_AT_A_TIME = 16  # times as many may be gone already, which costs 15 µs each
_LARGEST = 16 << 20  # bytes of /proc/PID/maps: 65,530 mappings, the kernel's own limit, of 200 bytes each
_EPOCHS = 4  # programs that a pid ran, one after the other
_REPLACED = 256  # replaced mappings kept for a program
_MOST_UNREAD = 16
LOCKED = f"no answer in {PATIENCE:g} s: its memory map is locked, as by a file system that does not answer"


class _Space:
    """What one program has mapped: pieces that do not overlap, and what was there before them."""

    __slots__ = ("_pieces", "_replaced", "_starts", "taken_ns")

    def __init__(self, taken_ns: int = 0) -> None:
        self.taken_ns = taken_ns  # when the snapshot was taken; it holds all earlier mappings that still exist
        self._starts: list[int] = []
        self._pieces: list[tuple[int, Region]] = []  # where a piece ends, and what it is a piece of
        self._replaced: deque[Region] = deque(maxlen=_REPLACED)

    def __len__(self) -> int:
        return len(self._pieces) + len(self._replaced)

    def copy(self) -> _Space:
        other = _Space(self.taken_ns)
        other._starts, other._pieces = self._starts.copy(), self._pieces.copy()
        other._replaced = self._replaced.copy()
        return other

    def pieces(self) -> Iterator[tuple[int, int, Region]]:
        """From where to where, and what it is a piece of."""
        return ((start, end, region) for start, (end, region) in zip(self._starts, self._pieces, strict=True))

    def add(self, region: Region) -> None:
        first = bisect_right(self._starts, region.start)
        if region.since_ns < self.taken_ns:
            end, old = self._pieces[first - 1] if first else (0, region)
            if region.start < end and old.path == region.path:  # already in the snapshot, which has no build IDs
                old.build_id = old.build_id or region.build_id
            else:
                self._replaced.append(region)
            return
        if first and self._pieces[first - 1][0] > region.start:
            first -= 1
        last = first
        left: list[tuple[int, int, Region]] = [(region.start, region.end, region)]
        while last < len(self._starts) and self._starts[last] < region.end:
            start, (end, old) = self._starts[last], self._pieces[last]
            if start < region.start:
                left.insert(0, (start, region.start, old))
            if end > region.end:
                left.append((region.end, end, old))
            if not self._replaced or self._replaced[-1] is not old:
                self._replaced.append(old)
            last += 1
        self._starts[first:last] = [start for start, _, _ in left]
        self._pieces[first:last] = [(end, piece) for _, end, piece in left]

    # What is on top now was there at an earlier time if it was mapped by then; else check what it replaced.
    def find(self, address: int, time_ns: int) -> Region | None:
        at = bisect_right(self._starts, address) - 1
        if at >= 0:
            end, region = self._pieces[at]
            if address < end and region.since_ns <= time_ns:
                return region
        replaced = [it for it in self._replaced if it.start <= address < it.end and it.since_ns <= time_ns]
        return max(reversed(replaced), key=lambda it: it.since_ns, default=None)


@dataclass(slots=True)
class _Epoch:
    """A program, from the time a pid began to run it."""

    since_ns: int
    space: _Space
    shared: bool = False  # with the parent or child of a fork: to be copied before it is changed
    counted: int = 0  # regions counted for it; shared ones are counted once, for the first

    def __lt__(self, other: _Epoch) -> bool:
        return self.since_ns < other.since_ns


def _proc_maps(pid: int) -> bytes:
    with open(f"/proc/{pid}/maps", "rb") as file:
        return file.read(_LARGEST)


class Mappings:
    """All processes. Feed it all records, show it the pids of all samples, then ask.

    Bounded: processes that exited are forgotten first, in order of exit, then the least recently used. `maps` reads a
    snapshot, and raises OSError for a process that is gone.
    """

    def __init__(self, maps: Callable[[int], bytes] = _proc_maps, *, most: int = MOST_PROCESSES) -> None:
        self._maps, self._most = maps, most
        self.aside = Aside()  # also for the files that are mapped
        self.unread: dict[int, str] = {}  # processes whose mappings could not be read, and why; the last few
        self._epochs: OrderedDict[int, list[_Epoch]] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._regions = 0

    def __len__(self) -> int:
        return len(self._epochs)

    def feed(self, records: Iterable[Record]) -> None:
        """Add records in order of time; those of another core may be late by one read."""
        for record in records:
            if isinstance(record, Mmap):
                self._mapped(record)
            elif isinstance(record, Comm):
                if record.execed:
                    self._begin(record.pid, _Epoch(record.time_ns, _Space()))
            elif isinstance(record, Fork):
                if record.pid != record.parent_pid:
                    self._forked(record)
            elif isinstance(record, Exit) and record.pid == record.tid and record.pid in self._epochs:
                self._ended[record.pid] = None
        self._forget()

    def knows(self, pid: int) -> bool:
        """Whether its mappings were read, or all of them reported."""
        return pid in self._epochs

    def see(self, pids: Iterable[int], time_ns: int, *, at_most: int = SNAPSHOTS) -> int:
        """Read the mappings of processes not yet known, now (time_ns); returns how many are still to be read."""
        unknown = [pid for pid in pids if pid > 0 and pid not in self._epochs]
        asked = read = 0
        for pid in unknown[: at_most * _GONE_AT_A_TIME]:
            if read >= at_most:
                break
            task = self.aside.run(partial(self._maps, pid), pid)
            if task is None:  # too many are under way: it may be read another time
                self._cannot(pid, self.aside.why_full)
                continue
            asked += 1
            # One that has exited, which is normal, or is locked: kept empty, so that it is not read again.
            text = b""
            if not task.done:
                self._cannot(pid, LOCKED)
            else:
                self.unread.pop(pid, None)
                with suppress(OSError):
                    text = task.result()
                    read += 1
            space = _Space()
            for region in parse_maps(text):
                space.add(region)
            space.taken_ns = time_ns
            self._epochs[pid] = [_Epoch(0, space)]
            self._count(self._epochs[pid][0])
        self._forget()
        return len(unknown) - asked

    def _cannot(self, pid: int, why: str) -> None:
        self.unread[pid] = why
        if len(self.unread) > _MOST_UNREAD:
            del self.unread[next(iter(self.unread))]

    def begin(self, pid: int, epoch: _Epoch) -> None:
        """Known from elsewhere: what a process has mapped since it runs its program."""
        self._begin(pid, epoch)
        self._count(epoch)
        self._forget()

    def find(self, pid: int, address: int, time_ns: int) -> Region | None:
        """What was at that address of that process at that time; None if that is not known."""
        if address & ~0xFFF == LAST_PAGE_OF_CALLS:
            return VSYSCALL
        epoch = self._at(pid, time_ns)
        region = epoch.space.find(address, time_ns) if epoch is not None else None
        if region is not None:
            self._epochs.move_to_end(pid)
        return region

    def find_all(self, asked: Sequence[tuple[int, int, int]]) -> list[Region | None]:
        """The same for many (pid, address, time); fast where those of one process follow each other."""
        found: list[Region | None] = []
        last, since, space = -1, 0, _Space()
        starts, pieces, replaced = space._starts, space._pieces, space._replaced
        for pid, address, time_ns in asked:
            if pid != last:
                last, epochs = pid, self._epochs.get(pid)
                if epochs:
                    self._epochs.move_to_end(pid)
                since, space = (epochs[-1].since_ns, epochs[-1].space) if epochs else (0, _Space())
                starts, pieces, replaced = space._starts, space._pieces, space._replaced
            if since <= time_ns:  # it ran the last of its programs
                at = bisect_right(starts, address) - 1
                end, region = pieces[at] if at >= 0 else (0, None)
                if region is not None and address < end and region.since_ns <= time_ns:
                    found.append(region)
                    continue
                if address >= end and not replaced and address < LAST_PAGE_OF_CALLS:  # nothing was ever there
                    found.append(None)
                    continue
            found.append(self.find(pid, address, time_ns))
        return found

    def _mapped(self, record: Mmap) -> None:
        epoch = self._at(record.pid, record.time_ns)
        if epoch is None or record.length <= 0:  # not in a sample yet: the snapshot will have it
            return
        if epoch.shared:
            epoch.space, epoch.shared = epoch.space.copy(), False
        end = record.address + record.length
        about = (record.offset, record.path, record.build_id, record.time_ns, record.device, record.inode)
        epoch.space.add(Region(record.address, end, *about))
        self._count(epoch)

    def _forked(self, record: Fork) -> None:
        parent = self._at(record.parent_pid, record.time_ns)
        if parent is not None:
            parent.shared = True
            self._begin(record.pid, _Epoch(record.time_ns, parent.space, shared=True))
        elif all(epoch.space.taken_ns < record.time_ns for epoch in self._epochs.get(record.pid, ())):
            self._drop(record.pid)  # a reused pid of an unknown parent: a snapshot will show its mappings

    # A snapshot taken after a program began belongs to that program.
    def _begin(self, pid: int, epoch: _Epoch) -> None:
        self._ended.pop(pid, None)
        epochs = self._epochs.setdefault(pid, [])
        self._epochs.move_to_end(pid)
        newest = epochs[-1] if epochs else None
        if newest is not None and newest.since_ns < epoch.since_ns < newest.space.taken_ns and not newest.shared:
            newest.since_ns = epoch.since_ns
            return
        insort(epochs, epoch)
        while len(epochs) > _EPOCHS:
            self._regions -= epochs.pop(0).counted

    def _at(self, pid: int, time_ns: int) -> _Epoch | None:
        for epoch in reversed(self._epochs.get(pid, ())):
            if epoch.since_ns <= time_ns:
                return epoch
        return None

    def _forget(self) -> None:
        while self._epochs and (len(self._epochs) > self._most or self._regions > MOST_REGIONS):
            self._drop(next(iter(self._ended or self._epochs)))

    def _drop(self, pid: int) -> None:
        self._ended.pop(pid, None)
        self._regions -= sum(epoch.counted for epoch in self._epochs.pop(pid, ()))

    def _count(self, epoch: _Epoch) -> None:
        self._regions += len(epoch.space) - epoch.counted
        epoch.counted = len(epoch.space)
