"""Control: a program keeps one core busy in user code, which is no fault."""

from __future__ import annotations

from zombiescope.lab._scenario import CPU_FAULTS, Truth
from zombiescope.lab._starvers import starver
from zombiescope.lab._worker import on_one_core

TRUTH = Truth(silent=CPU_FAULTS)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SHORT = True
run = on_one_core(starver, "spin", "process {pid} keeps core {core} busy in user code")
