"""A unit that systemd starts again forever, for tests that boot one."""

from __future__ import annotations

from zombiescope.lab._units import restarted


def looping(does: str, *, pause: float = 0) -> str:
    """It does this in a shell each time, and fails when that does."""
    return restarted(f"/bin/sh -c '{does}'", pause)
