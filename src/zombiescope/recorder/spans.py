"""The programs that processes ran, in one sorted column: a span is from a fork, or an exec, to the next one of its pid.

A pid is given to many processes: beside 300 new ones a second, 32,768 of them last for two minutes. A key of 64 bits
holds pid and time, so one search finds the span of any (pid, time).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zombiescope.naming.ranges import distinct
from zombiescope.profile.perf_data_records import Places, Words

_TIME = np.uint64(42)  # bits of a key: 73 minutes in nanoseconds
_LATEST, _ANY_PID = (1 << 42) - 1, np.uint64((1 << 22) - 1)  # Linux has no pid above
Mask = npt.NDArray[np.bool_]


class Spans:
    """By number, in order of pid and time; the first of each pid began before the head did."""

    def __init__(
        self, samples: Sequence[Words], exits: Sequence[Words], execs: Sequence[Words], forks: Sequence[Words]
    ) -> None:
        """Columns of pids and of times; of forks, also of parents."""
        times = np.concatenate([it[1] for it in (samples, exits, execs, forks)])
        self._base = np.uint64(max(int(times.min()), 1) - 1 if len(times) else 0)
        seen = np.zeros(int(_ANY_PID) + 1, np.bool_)
        for pids in (samples[0], exits[0], execs[0], forks[0], forks[2]):
            seen[pids & _ANY_PID] = True
        begun = (self._key(forks[0], forks[1]), self._key(execs[0], execs[1]))
        self._keys = np.sort(np.concatenate([np.flatnonzero(seen).astype(np.uint64) << _TIME, *begun]))
        self._parents = np.full(len(self._keys), -1, np.int64)
        self._parents[self._at(begun[0])] = self._at(self._key(forks[2], forks[1]))
        ended = np.zeros(len(self._keys), np.bool_)
        ended[self._at(self._key(exits[0], exits[1]))] = True
        last = np.append(self._keys[1:] >> _TIME != self._keys[:-1] >> _TIME, True)[: len(self._keys)]
        # Of processes that live on, with all that they descend from; and those in samples, too.
        self.lasting = self._with_parents(last & ~ended)
        self.used = self.lasting.copy()
        self.used[self._at(self._key(samples[0], samples[1]))] = True
        self.used = self._with_parents(self.used)
        # Also of one that was sampled before it began its program.
        self.exit_used = self.used | np.append(False, self.used[:-1] & ~last[:-1])[: len(self.used)]

    def __len__(self) -> int:
        return len(self._keys)

    def numbers(self, pid: Words, time_ns: Words) -> Places:
        """The span of each (pid, time); -1 if the pid is not among them."""
        keys = self._key(pid, time_ns)
        at = self._at(keys)
        if len(self._keys):
            at[self._keys[np.maximum(at, 0)] >> _TIME != keys >> _TIME] = -1
        return at

    def programs(self, pid: Words, time_ns: Words) -> Places:
        """The same for samples; 0 if it began before the head did."""
        at = np.maximum(self.numbers(pid, time_ns), 0)
        return np.where(self._keys[at] & np.uint64(_LATEST) == 0, 0, at) if len(self._keys) else at

    def _key(self, pid: Words, time_ns: Words) -> Words:
        since = np.clip((time_ns - self._base).view(np.int64), 0, _LATEST).view(np.uint64)
        return (pid & _ANY_PID) << _TIME | since

    def _at(self, keys: Words) -> Places:
        return np.searchsorted(self._keys, keys, side="right") - 1

    def _with_parents(self, some: Mask) -> Mask:
        parents = self._parents
        for at in distinct(parents[some]).tolist():
            while at >= 0 and not some[at]:
                some[at] = True
                at = int(parents[at])
        return some
