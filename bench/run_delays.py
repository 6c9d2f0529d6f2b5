"""What timing the waits of threads costs: two processes that wake each other through pipes, on one core.

Each exchange is two wake-ups and two switches. With the programs and without, in turn: a busy machine is as busy for
both. What WAITS a second cost must stay within 0.15 % of a core.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from zombiescope.core import Unreadable, UserError
from zombiescope.kernel.run_delays import RunDelays
from zombiescope.probes.cgroup_run_delay import WAITS

TURNS, EXCHANGES = 9, 20_000
ALLOWED = 0.0015  # of one core


def ratios() -> Iterator[tuple[str, float, float, str]]:
    try:
        pairs = [(_wait(timed=False), _wait(timed=True)) for _ in range(TURNS)]
    except Unreadable as error:
        raise UserError(str(error)) from error
    without, cost = statistics.median(it[0] for it in pairs), statistics.median(b - a for a, b in pairs)
    took = f"a wake-up and a switch take {without * 1e9:,.0f} ns without"
    detail = f"{cost * 1e9:.0f} ns a wait ({took}); {WAITS:,.0f} a second"
    yield "waits of threads, against 0.15 % of a core", cost * WAITS / ALLOWED, 1.0, detail


def _wait(*, timed: bool) -> float:
    """CPU seconds of one wake-up, its switch included."""
    if not timed:
        return _exchanged()
    with RunDelays(most=float("inf")):
        return _exchanged()


def _exchanged() -> float:
    before, there, back = os.sched_getaffinity(0), os.pipe(), os.pipe()
    os.sched_setaffinity(0, {min(before)})
    try:
        child = os.fork()
        if not child:
            for _ in range(EXCHANGES):
                os.write(back[1], os.read(there[0], 1))
            os._exit(0)
        began = os.times()
        for _ in range(EXCHANGES):
            os.write(there[1], b"x")
            os.read(back[0], 1)
        os.waitpid(child, 0)
        return (sum(os.times()[:4]) - sum(began[:4])) / EXCHANGES / 2
    finally:
        os.sched_setaffinity(0, before)
        for it in (*there, *back):
            os.close(it)
