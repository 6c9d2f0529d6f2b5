"""From the monotonic clock, which nobody can set, to unix time, as the wall clock is set now."""

from __future__ import annotations

import time


def seconds(ns: int) -> float:
    """The float next to it: a division would first round 19 digits to 16."""
    whole, rest = divmod(ns, 1_000_000_000)
    return whole + rest / 1e9


def nanoseconds(at: float) -> int:
    """And back."""
    whole = int(at // 1)
    return whole * 1_000_000_000 + round((at - whole) * 1e9)


def ahead_ns(clock: int = time.CLOCK_MONOTONIC) -> int:
    """Nanoseconds to add to a time of `clock` to get unix time. Ask at each read: the wall clock may have been set."""
    before = time.clock_gettime_ns(clock)
    now = time.time_ns()
    # The middle of two readings: a pause between them then counts half.
    return now - (before + time.clock_gettime_ns(clock)) // 2
