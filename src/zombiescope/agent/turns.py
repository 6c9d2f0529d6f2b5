"""When to look next: as often as the budget allows, and sooner when the recorder says that something crashed.

An early look is paid from what is saved for looks, as any other (see budget.Account): if that is used up, those that
follow come later. So a crash is looked at soon on a node where a look is dear.
"""

from __future__ import annotations

import time

from zombiescope.agent.budget import FIRST
from zombiescope.agent.pace import Pace
from zombiescope.agent.settle_first import SettleFirst
from zombiescope.places.own_processes import children
from zombiescope.recorder.standing import Standing

# Early looks at once, and seconds for one more. What crashes for hours, or on purpose, gets four an hour: a look of
# 1.5 s makes 0.2 % of a core, if none of it can be paid back.
EARLY, REFILL = 4.0, 900.0
ANSWERS = 150.0  # seconds for which an examiner may stand still; its copies have limits of their own
LONGEST = 1800.0  # seconds: half an hour for a look is as bad as none
SETTLES = 2.0  # seconds: the recorder writes once a second


class Turns:
    """`next`: when the next look is due, by the monotonic clock. `waits`: one is under way since `asked_at`."""

    def __init__(self, every: float, settling: SettleFirst) -> None:
        self.waits, self.asked_at = False, time.monotonic()
        self.next = self.asked_at + min(FIRST, every)
        self._settling = settling
        self._early = Pace(EARLY, 1 / REFILL)
        self._alarmed = False  # since the last look began

    @property
    def pause(self) -> float:
        """Seconds from the last look to the next."""
        return self.next - self.asked_at

    def due(self, now: float) -> bool:
        """Whether to ask for a look now: it is time, and what is finished is settled."""
        return not self.waits and now >= self.next and self._settling.done(now)

    def soonest(self, now: float) -> float:
        """Seconds until that may be so."""
        return self.next - now if now < self.next else 1.0

    def settled(self) -> None:
        """The examiner answered: it is done, or cannot be done now."""
        self._settling.heard()

    def lost(self) -> None:
        """Who was asked has ended."""
        self.waits = False
        self._settling.begin()

    def asked(self, now: float, every: float, examiner: int = 0) -> None:
        """`examiner`: the process that was asked."""
        self._settling.begin()
        self._examiner, self._standing = examiner, Standing(examiner, now)
        self.waits, self.asked_at, self.next, self._alarmed = True, now, now + every, False

    def hangs(self, now: float) -> bool:
        """Whether who was asked will not answer: it stands still, with nobody at work for it. Slowness is no reason."""
        passed = now - self.asked_at
        if not self.waits or passed <= ANSWERS or not self._examiner:
            return False
        still = self._standing.still(now) > ANSWERS and not children(self._examiner)
        return still or passed > LONGEST

    def looked(self, every: float, wanted: float) -> None:
        """It was answered. `every`: the pause that the budget allows; `wanted`: the one that was asked for."""
        self.waits = False
        self.next = self.asked_at + every
        if self._alarmed:
            self.alarm(time.monotonic(), wanted)

    def alarm(self, now: float, wanted: float) -> bool:
        """Something crashed; whether the next look is sooner for it."""
        self._alarmed = True
        soon = max(self.asked_at + wanted, now + SETTLES)
        if self.waits or soon >= self.next or not self._early.allows():
            return False
        self.next = soon
        return True
