"""One budget for all that the recorder does, its settle children included: CPU time, as the kernel accounts it.

Unused time is saved up, as far as a segment: settling comes in bursts. When it is used up, the recorder does less,
one step at a time: fewer samples, then stacks without the program's part but its leaf, then probes at longer
intervals. When there is room again it goes back. Each step is written into the recording.
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import resource
from collections import deque
from dataclasses import dataclass

from zombiescope.core import percent

SHARE, FEW_CORES, SHARE_OF_EACH = 0.01, 48, 0.0002  # of one core; beyond so many cores, of each core
SAVED = 600.0  # seconds whose share can be saved up: a segment of a quiet node
PACE = 10.0  # seconds between two checks
PATIENCE = 120.0  # seconds before it does more again
ROOM = 0.45  # of the budget: one step more may double the cost
FEWEST = 10  # samples a second: fewer show nothing


@dataclass(frozen=True, slots=True)
class Step:
    """What the recorder does at one step."""

    hz: int
    user: bool  # stacks have the program's part
    stretch: float  # times the interval of each probe

    @property
    def words(self) -> str:
        stacks = f"{self.hz} samples a second on each core" if self.hz else "no samples"
        parts = [stacks, *(["stacks of the kernel with the program's leaf only"] if self.hz and not self.user else [])]
        return ", ".join([*parts, *([f"probes at {self.stretch:g} times their interval"] if self.stretch > 1 else [])])


def default_share(cores: int) -> float:
    return SHARE if cores <= FEW_CORES else SHARE_OF_EACH * cores


def spent() -> float:
    """CPU seconds of this process, and of its children that have ended."""
    used = [resource.getrusage(it) for it in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(it.ru_utime + it.ru_stime for it in used)


class Budget:
    """Counts what is spent, and says when to do less or more."""

    def __init__(self, share: float, *, hz: int, user: bool, now: float, spent: float) -> None:
        self.share = share  # of one core; 0: unlimited
        rates = [hz, *(rate for rate in (hz // 2, hz // 4) if rate >= FEWEST)]
        steps = [Step(rate, user, 1.0) for rate in rates]
        if hz and user:
            steps.append(Step(rates[-1], False, 1.0))
        self._steps = [*steps, *(Step(rates[-1], steps[-1].user, stretch) for stretch in (2.0, 4.0, 8.0))]
        self.level = 0
        self._saved = self._most = SAVED * share
        self._checks = deque([(now, spent)])  # of the last PATIENCE
        self._changed = now

    @property
    def step(self) -> Step:
        return self._steps[self.level]

    def check(self, now: float, spent: float) -> str:
        """Why it should go to another step, which is then the current one; empty if it should not."""
        before, spent_before = self._checks[-1]
        if not self.share or now - before < PACE:
            return ""
        self._checks.append((now, spent))
        while now - self._checks[1][0] >= PATIENCE:
            self._checks.popleft()
        rate = (spent - spent_before) / (now - before)
        self._saved = max(-self._most, min(self._most, self._saved + (self.share - rate) * (now - before)))
        if self._saved < 0 and rate > self.share and self.level < len(self._steps) - 1:
            self.level += 1
            self._changed = now
            return self._words("used", rate)
        if self.level and now - self._changed >= PATIENCE and self._saved > 0:
            then, spent_then = self._checks[0]
            rate = (spent - spent_then) / (now - then)
            if rate < ROOM * self.share:
                self.level -= 1
                self._changed = now
                return self._words("used only", rate)
        return ""

    def _words(self, used: str, rate: float) -> str:
        return f"{used} {percent(rate, 2)} of one core, the budget is {percent(self.share, 2)}: {self.step.words}"
