"""Control: a real-time process polls a core that nothing else wants, as packet pollers do on cores of their own."""

from __future__ import annotations

from zombiescope.lab._scenario import Truth
from zombiescope.lab._starvers import starver
from zombiescope.lab._worker import on_one_core

TRUTH = Truth()  # it may be noted
NEEDS = ("root",)
SECONDS = 8.0
ALONE = True
run = on_one_core(starver, "hog", "process {pid} polls core {core} at real-time priority, and nobody waits")
