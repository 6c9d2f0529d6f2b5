"""The names of threads at the time of each sample: as the records of forks, execs and renames say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Record
from zombiescope.naming.clean import thread_name
from zombiescope.recorder.places import places

MOST = 65_536  # threads whose name is remembered
UNKNOWN, IDLE = "?", "swapper"
Codes = npt.NDArray[np.int32]


class ThreadNames:
    """Feed it the records of a batch, then ask for its samples; names are numbered."""

    def __init__(self, known: Mapping[int, str], ask: Callable[[int], str]) -> None:
        """`known` at the beginning; `ask` gives the name of a thread that no record spoke of."""
        self.now = dict(known)
        self.words: dict[str, int] = {}
        self._ask = ask
        self._changes: dict[int, list[tuple[int, str]]] = {}  # in this batch, by thread: since when, and the name
        self._ended: dict[int, None] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """The records of a batch, in order of time."""
        self._changes.clear()
        for tid in self._ended:  # in the batch before
            self.now.pop(tid, None)
        self._ended.clear()
        for record in records:
            if isinstance(record, Comm):
                self._change(record.tid, record.time_ns, thread_name(record.comm))
            elif isinstance(record, Fork):
                name = self.now.get(record.parent_tid)
                if name is not None:
                    self._change(record.tid, record.time_ns, name)
            elif isinstance(record, Exit):
                self._ended[record.tid] = None
        if len(self.now) > MOST:
            self.now = dict(list(self.now.items())[-MOST // 2 :])

    def _change(self, tid: int, time_ns: int, name: str) -> None:
        if tid not in self._changes:
            self._changes[tid] = [(-1, self.now[tid])] if tid in self.now else []
        self._changes[tid].append((time_ns, name))
        self.now[tid] = name
        self._ended.pop(tid, None)

    def codes(self, tid: npt.NDArray[np.int32], time_ns: npt.NDArray[np.int64]) -> Codes:
        """The number of each sample's name."""
        distinct, which = np.unique(tid, return_inverse=True)
        codes = np.array([self._code(self._name(it)) for it in distinct.tolist()], np.int32)[which.reshape(-1)]
        for thread, own in places(tid, self._changes):
            changes = self._changes[thread]
            place = np.searchsorted(np.array([it for it, _ in changes]), time_ns[own], side="right") - 1
            # Before its first record here a name is not known; /proc would give the later one.
            names = [self._code(name) for _, name in changes] + [self._code(UNKNOWN)]
            codes[own] = np.array(names, np.int32)[place]
        return codes

    def _name(self, tid: int) -> str:
        if tid <= 0:
            return IDLE
        name = self.now.get(tid)
        if name is None:
            name = self.now[tid] = thread_name(self._ask(tid))
        return name

    def _code(self, name: str) -> int:
        return self.words.setdefault(name, len(self.words))
