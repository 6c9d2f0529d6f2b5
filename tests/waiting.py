"""Waiting for what a test asserts. Slowness is no failure: a limit is only there so that a hang ends."""

from __future__ import annotations

import time
from collections.abc import Callable

HANGS = 120.0  # seconds: what is not so by then will not be


def until(condition: Callable[..., object], seconds: float = HANGS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what the test waits for did not come"
        time.sleep(0.02)
