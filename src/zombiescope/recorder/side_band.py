"""Records of processes beside the samples (fork, exec, mmap, names): so many bytes a second, however many there are.

A storm of them would fill head after head, and push out hours of evidence. Samples are always kept; and of a process
whose records were left out, the head says so: what it runs is not known from there on. While all rings together bring
little, nothing is looked at. Standard library only: the capture process imports this.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence

from zombiescope.core import amount, lasting
from zombiescope.kernel.perf_rings import Drained

# A node that starts 300 processes a second has 600 KB of records of them. Of a small recording a part of the limit.
RATE, PART = 1 << 20, 1 / 512  # bytes a second
SAVED = 16.0  # seconds of it
SAMPLE = 512  # bytes of a usual one: more only means that records are looked at one by one, 0.3 µs each
WINDOW = 10.0  # seconds: in each every process may take as much as it leaves for all others
# Without its forks and names a process is nobody: of these it may take four times what it leaves for all others. Of
# mappings, the most of it, which give names of functions alone, a quarter of what there is in a window.
NAMES, MAPPED = 4, 0.25
FIRST, SAYS = 2.0, 60.0  # seconds: what was left out is said soon, and then once a minute
MOST_UNKNOWN = 32_768  # processes that are remembered: 3 MB
_COMM, _EXIT, _FORK, _MMAP2, _CGROUP = 3, 4, 7, 10, 19
_LEAST = {_COMM: 6, _EXIT: 7, _FORK: 7, _MMAP2: 13, _CGROUP: 6}  # words, as in perf_records
_STARTS_OTHERS = 2  # pid 1 and kthreadd start what has nothing to do with each other
_IS_EXEC, _PID = 1 << 13, 0xFFFFFFFF
_TIME, _WHO = 2, 3  # words from the end of each record: see perf_records


class SideBand:
    """For the rings of all cores, as they are drained."""

    def __init__(self, rate: int = RATE) -> None:
        self._rate, self._room = rate, SAVED * rate
        self._counted = self._window = self._guilty_since = time.monotonic()
        self._pause = FIRST
        self.storm = False
        self._owners: dict[int, int] = {}  # of processes: the one that they descend from, since the storm began
        self._unknown: dict[int, None] = {}  # processes of which records were left out
        self._used: Counter[int] = Counter()  # bytes in this window, by owner
        self._mapped: Counter[int] = Counter()  # of these, records of mappings
        self._left, self._all = 0.0, 0  # bytes that are left in this window, and that there were
        self._guilty: Counter[int] = Counter()  # bytes that were left out since that was said, by owner
        self._fresh: dict[int, None] = {}  # that are unknown since the last drain
        self.since = 0  # nanoseconds of the monotonic clock: the first record that was left out in the last drain

    def count(self, size: int, hz: int) -> None:
        """What the rings brought. More than samples take, for longer than was saved up: a storm."""
        now = time.monotonic()
        self._room += (self._rate + hz * SAMPLE * (os.cpu_count() or 1)) * (now - self._counted) - size
        self._room, self._counted = max(min(self._room, SAVED * self._rate), -SAVED * self._rate), now
        if self.storm and now - self._window >= WINDOW:
            if self._all < self._rate * WINDOW / 2 and self._room > 0:
                self.storm, self._pause = False, FIRST
                self._owners, self._unknown = {}, {}
            self._begin_window(now)
        elif not self.storm and self._room < 0:
            self.storm = True
            self._begin_window(now)

    def _begin_window(self, now: float) -> None:
        self._window, self._left, self._all = now, self._rate * WINDOW, 0
        self._used.clear()
        self._mapped.clear()
        self._fresh = dict(self._unknown)  # said once more: another head may have begun

    def within(self, drained: Sequence[Drained]) -> tuple[list[Drained], list[int]]:
        """Rings without what is too much; and the processes of which records were left out."""
        self.since = time.monotonic_ns()
        kept = [it._replace(content=self._kept(it.content)) for it in drained]
        fresh, self._fresh = list(self._fresh), {}
        for known in (self._unknown, self._owners):
            while len(known) > MOST_UNKNOWN:
                del known[next(iter(known))]
        return kept, fresh

    def _kept(self, content: bytes) -> bytes:
        if len(content) & 7:
            return content
        pieces, begin, at, end = [], 0, 0, len(content) >> 3
        with memoryview(content) as raw, raw.cast("Q") as words:
            while at < end:
                head = words[at]
                stop = at + (head >> 51)
                if stop == at or stop > end:  # damaged: settle says so
                    break
                kind = head & 0xFFFFFFFF
                if kind in _LEAST and stop - at >= _LEAST[kind] and not self._fits(kind, words, at, stop):
                    pieces.append(content[8 * begin : 8 * at])
                    begin = stop
                at = stop
        return b"".join([*pieces, content[8 * begin :]])

    def _fits(self, kind: int, words: memoryview[int], at: int, stop: int) -> bool:
        size, first = 8 * (stop - at), words[at + 1]
        pid, parent = first & _PID, first >> 32
        self._all += size
        main = True  # what it says is of a process, not of one of its threads
        if kind == _FORK:
            main = pid != parent
            owner = self._owners.get(parent, parent if parent > _STARTS_OTHERS else pid)
            if main:
                self._owners[pid] = owner
                self._unknown.pop(pid, None)
        elif kind == _CGROUP:
            pid, main = words[stop - _WHO] & _PID, False
            owner = self._owners.get(pid, pid)
        else:
            owner = self._owners.get(pid, pid)
            if kind == _EXIT:
                main = False
                if words[at + 2] & _PID == pid:  # its owner is kept: other threads of it may live on, and fork
                    self._unknown.pop(pid, None)
            elif kind == _COMM:
                main = parent == pid  # there it is the thread
                if main and words[at] >> 32 & _IS_EXEC:  # of the program that it begins all will be known
                    self._unknown.pop(pid, None)
        used, mapped = self._used[owner] + size, self._mapped[owner] + size
        maps, room = kind == _MMAP2, self._left * (NAMES if kind in (_FORK, _COMM) else 1)
        if used <= room and not (maps and (pid in self._unknown or mapped > MAPPED * self._rate * WINDOW)):
            self._used[owner] = used
            self._left -= size
            if maps:
                self._mapped[owner] = mapped
            return True
        if not self._guilty:
            self._guilty_since = time.monotonic()
        self._guilty[owner] += size
        if main and pid not in self._unknown:
            self._unknown[pid] = self._fresh[pid] = None
            self.since = min(self.since, words[stop - _TIME])
        return False

    def said(self) -> str:
        """What was left out and whose it was, now and then; empty if there is nothing to say."""
        passed = time.monotonic() - self._guilty_since
        if not self._guilty or (self.storm and passed < self._pause):
            return ""
        size, ((owner, _), *_) = self._guilty.total(), self._guilty.most_common(1)
        self._guilty.clear()
        self._pause = SAYS
        return (
            f"{amount(size)} of records of forks, programs begun, mappings and names were left out within "
            f"{lasting(passed)}, most of them of {_name(owner)} and what it started: "
            f"more than {amount(self._rate)} a second are not kept, and those processes have no names of functions"
        )


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return f"{file.read(100).strip()} (pid {pid})"
    except OSError:
        return f"pid {pid}"
