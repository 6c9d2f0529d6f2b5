"""The names of threads at the time of each sample: as the records of forks, execs and renames say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Record
from zombiescope.naming.clean import thread_name
from zombiescope.naming.ranges import distinct
from zombiescope.recorder.shares import in_turn

MOST = 65_536  # threads whose name is remembered
UNKNOWN, IDLE = "?", "swapper"
_NOBODY = -(1 << 31)  # below every thread
_BEFORE = -(1 << 63)  # any time
LONGEST = 1 << 40  # nanoseconds, 18 minutes: a batch is 30 s, and records of other cores may be a little earlier
Codes = npt.NDArray[np.int32]


class ThreadNames:
    """Feed it the records of a batch, then ask for its samples; names are numbered."""

    def __init__(self, known: Mapping[int, str]) -> None:
        """`known` at the beginning."""
        self.now = dict(known)
        self.forgotten: Counter[int] = Counter()  # threads, by process
        self._processes: dict[int, int] = {}  # of threads that have another number than their process
        self.words: dict[str, int] = {}
        self._changed: set[int] = set()  # threads, in this batch
        self._changes: list[tuple[int, int, str]] = []  # thread, since when, the name
        self._ended: dict[int, None] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """The records of a batch, in order of time."""
        self._changed.clear()
        self._changes.clear()
        for tid in self._ended:  # in the batch before
            self.now.pop(tid, None)
            self._processes.pop(tid, None)
        self._ended.clear()
        for record in records:
            if isinstance(record, Comm) and record.execed and record.comm == UNKNOWN:
                continue  # it began a program of which nothing is known: it has the name that it had
            if isinstance(record, Comm):
                self._change(record.pid, record.tid, record.time_ns, thread_name(record.comm))
            elif isinstance(record, Fork):
                name = self.now.get(record.parent_tid)
                if name is not None:
                    self._change(record.pid, record.tid, record.time_ns, name)
            elif isinstance(record, Exit):
                self._ended[record.tid] = None
        if len(self.now) > MOST:
            self.forgotten += Counter(map(self._process, self.now.keys() - (kept := self.kept(MOST // 2)).keys()))
            self.now = kept

    def kept(self, most: int) -> dict[int, str]:
        """So many, of every process its first thread before any other: one that has very many costs only itself."""
        if len(self.now) <= most:
            return self.now
        first_last = sorted(self.now, key=lambda tid: tid not in self._processes)
        some = in_turn(((tid, self._process(tid)) for tid in first_last), most)
        return {tid: name for tid, name in self.now.items() if tid in some}

    def _process(self, tid: int) -> int:
        return self._processes.get(tid, tid)

    def _change(self, pid: int, tid: int, time_ns: int, name: str) -> None:
        if tid not in self._changed:
            # Before its first record here a name is not known; /proc would give the later one.
            self._changed.add(tid)
            self._changes.append((tid, _BEFORE, self.now.get(tid, UNKNOWN)))
        self._changes.append((tid, time_ns, name))
        self.now[tid] = name
        if pid != tid:
            self._processes[tid] = pid
        self._ended.pop(tid, None)

    def codes(
        self,
        pid: npt.NDArray[np.int32],
        tid: npt.NDArray[np.int32],
        time_ns: npt.NDArray[np.int64],
        ask: Callable[[int], str],
    ) -> Codes:
        """The number of each sample's name; `ask` gives the name of a thread that no record spoke of."""
        found = np.empty(len(tid), np.int32)
        theirs = np.sort(np.fromiter([_NOBODY, *self._changed], np.int32))
        changed = theirs[np.searchsorted(theirs, tid, side="right") - 1] == tid
        found[changed] = self._changed_codes(tid[changed], time_ns[changed])
        same = tid[~changed]
        threads = distinct(same)
        place = np.searchsorted(threads, same)
        processes = np.zeros(len(threads), np.int32)
        processes[place] = pid[~changed]
        names = (self._name(*it, ask) for it in zip(processes.tolist(), threads.tolist(), strict=True))
        codes = np.array([self._code(it) for it in names], np.int32)
        found[~changed] = codes[place]
        return found

    def _changed_codes(self, tid: npt.NDArray[np.int32], time_ns: npt.NDArray[np.int64]) -> Codes:
        """Of threads that have a first name, and got others; times as they came, so the last of two at once holds."""
        if not len(tid):
            return np.empty(0, np.int32)
        threads, times, names = zip(*self._changes, strict=True)
        base = int(time_ns[0]) - LONGEST  # samples are in order of time
        since = np.array(times, np.int64)
        changes = _key(np.array(threads, np.int64), np.where(since == _BEFORE, base, since), base)
        order = np.argsort(changes, kind="stable")
        mine = order[np.searchsorted(changes[order], _key(tid.astype(np.int64), time_ns, base), side="right") - 1]
        once = distinct(mine)
        codes = np.array([self._code(names[it]) for it in once.tolist()], np.int32)
        return codes[np.searchsorted(once, mine)]

    def _name(self, pid: int, tid: int, ask: Callable[[int], str]) -> str:
        if tid <= 0:
            return IDLE
        if pid != tid:
            self._processes[tid] = pid
        name = self.now.get(tid)
        if name is None:
            name = thread_name(ask(tid))
            if name == UNKNOWN:  # a thread has the name of who made it, until it takes another
                name = self.now.get(pid, UNKNOWN)
            self.now[tid] = name
        return name

    def _code(self, name: str) -> int:
        return self.words.setdefault(name, len(self.words))


def _key(tid: npt.NDArray[np.int64], time_ns: npt.NDArray[np.int64], base: int) -> npt.NDArray[np.int64]:
    """Thread and time in one number: one order, by thread and then by time."""
    return tid << 41 | np.clip(time_ns - base, 0, (1 << 41) - 1)
