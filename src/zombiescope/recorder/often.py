"""What is read many times a second, by the main thread: from files that no lock of the kernel stands before.

As little as can be is done so often: after a quarter of a second without it, all that it calls is cold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from zombiescope.core import Host, Unreadable
from zombiescope.recorder.sampling import SHARE, Fetched, Sample, all_blind

OFTEN = 1.0  # seconds: a probe with FILES and a shorter interval is read here
WEIGHED = 10  # of so many samples, the cost of one is measured
# Cores: as long as all of them together spend less than that in the kernel, none is full there (see saturated_core),
# and half as many samples show as much.
CALM = 0.7

NextTime = Callable[[float, float], float]  # from a time and a pause to when something is due


@dataclass(slots=True)
class _One:
    """A probe that is read often."""

    probe: ModuleType
    fetch: Callable[[], bytes]
    in_kernel: Callable[[bytes], float] | None  # CPU seconds of all cores until then, of a probe that knows
    at: float = math.inf  # when it is due
    pause: float = 0.0  # until the next time, measured with its cost
    last: tuple[int, float] = (0, -math.inf)  # when it was read, and what the cores had spent in the kernel


class Often:
    """Probes that are read many times a second; `due` is when the first of them is."""

    def __init__(
        self,
        host: Host,
        probes: Mapping[str, ModuleType],
        fetches: Mapping[str, Callable[[], bytes]],
        next_time: NextTime,
    ) -> None:
        self._host, self._next_time = host, next_time
        self._each = {name: _One(it, fetches[name], getattr(it, "in_kernel", None)) for name, it in probes.items()}
        self._turn = 0
        self._taken: list[tuple[str, Sample | Fetched]] = []
        self.due = math.inf

    def __contains__(self, name: str) -> bool:
        return name in self._each

    def begin(self, name: str, at: float) -> None:
        self._each[name].at = at
        self.due = min(self.due, at)

    def take(self) -> list[tuple[str, Sample | Fetched]]:
        """What was read since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def fetch(self, stretch: float) -> None:
        """Read what is due; `stretch` times its interval later it is due again."""
        due, weigh = self.due, self._turn % WEIGHED == 0
        self._turn += 1
        for name, one in self._each.items():
            if one.at > due:
                continue
            started = time.thread_time() if weigh else 0.0
            calm = False
            sample: Sample | Fetched
            try:
                content = one.fetch()
                now = time.monotonic_ns()
                sample = Fetched(now, content, 0.0)
                calm = one.in_kernel is not None and _is_calm(one, now, one.in_kernel(content))
            except Unreadable as error:
                now = time.monotonic_ns()
                sample = Sample(self._host.now(), (), all_blind(one.probe, error), 0.0)
            self._taken.append((name, sample))
            if weigh or not one.pause:
                costly = (time.thread_time() - started) / SHARE if weigh else 0.0
                one.pause = max(stretch * one.probe.EVERY, costly)
            one.at = max(self._next_time(due, one.pause * (2 if calm else 1)), now / 1e9)
        self.due = min(it.at for it in self._each.values())


def _is_calm(one: _One, now: int, spent: float) -> bool:
    (then, before), one.last = one.last, (now, spent)
    return spent - before < CALM * (now - then) / 1e9
