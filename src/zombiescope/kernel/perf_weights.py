"""How much time each sample stands for.

Samples of the cpu-clock come every so many nanoseconds, and their period says how many. Samples of cycles do not: the
kernel changes the period all the time to come near the rate that was asked for, so a core that has just been idle gives
many samples of few cycles. Counted alike they would make such a core look busier than it was; so each is weighed by its
period, and cycles become time by the speed of the core: cycles counted from one sample to the next while it was busy.

A counter is shared if more events are wanted than there are counters (somebody runs perf stat): it counts a part of the
time, and its samples stand for all of it (time_enabled / time_running in perf_event_open(2)).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_BUSY = 90  # percentile of the speeds seen: a core that idled in between looks slower than it is, never faster …
_NEAR = 0.5  # … but for a late sample, after which the next comes soon: of a period, less is not measured
_SLOWER = 0.9  # of its speed is kept from read to read: it falls with the load (turbo), and is seen only when busy
_LEAST_SHARE = 0.01  # a counter that counted less says nothing of the rest


class Weights:
    """For the samples of one event on all cores, read by read."""

    def __init__(self, event: str, hz: int) -> None:
        self._timed, self._even = event == "cpu-clock", 1e9 / hz
        self._last: dict[int, int] = {}  # time of each core's last sample
        self._speed: dict[int, float] = {}  # cycles a nanosecond

    def of(self, time_ns: Ints, cpu: npt.NDArray[np.uint16], period: Ints, shares: Mapping[int, float]) -> Ints:
        """Nanoseconds for each sample of one read, in order of time; `shares`: when the counter of a core counted."""
        if self._timed:
            return np.where(period > 0, period, round(self._even))
        weights = np.full(len(period), self._even)
        rows_of = {core: np.flatnonzero(cpu == core) for core in np.unique(cpu).tolist()}
        since_of = {core: self._since(core, time_ns[rows]) for core, rows in rows_of.items()}
        for core, rows in rows_of.items():
            self._measure(core, period[rows], since_of[core])
        for core, rows in rows_of.items():
            speed = self._speed.get(core) or float(np.median(list(self._speed.values()) or [0.0]))
            if speed:
                since = since_of[core]
                own = period[rows] / speed
                weights[rows] = np.where(since > 0, np.minimum(own, since), own)
            weights[rows] /= max(shares.get(core, 1.0), _LEAST_SHARE)
        return np.round(weights).astype(np.int64)

    def _since(self, core: int, times: Ints) -> Ints:
        """From the sample before; 0 for the first of all."""
        since = np.diff(times, prepend=self._last.get(core, times[0]))
        self._last[core] = int(times[-1])
        return since

    def _measure(self, core: int, period: Ints, since: Ints) -> None:
        far = since > self._even * _NEAR
        if far.any():
            seen = float(np.percentile(period[far] / since[far], _BUSY))
            self._speed[core] = max(seen, self._speed.get(core, 0.0) * _SLOWER)
