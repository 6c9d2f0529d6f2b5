"""A unit that systemd starts again forever, for tests that boot one."""

from __future__ import annotations

import re

from zombiescope.lab._systemd import LEAKING


def looping(does: str, *, pause: float = 0) -> str:
    """The lab's leaking agent, but doing this in a shell each time; it fails when that does."""
    return re.sub("ExecStart=.*", lambda _: f"ExecStart=/bin/sh -c '{does}'", LEAKING.format(pause=pause))
