"""Control: a kernel thread of io_uring polls one core for requests (SQPOLL): full of kernel time, on purpose."""

from __future__ import annotations

from zombiescope.lab._innocents import innocent
from zombiescope.lab._scenario import CPU_CAUSES, Truth
from zombiescope.lab._worker import on_one_core

# A saturated core is what it is, and may be noted.
TRUTH = Truth(silent=tuple(it for it in CPU_CAUSES if it != "saturated_core"))
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
ALONE = True
run = on_one_core(innocent, "poll", "a thread of process {pid} polls core {core} and never sleeps")
