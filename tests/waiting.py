"""Waiting for what a test asserts. Slowness is no failure: a limit is only there so that a hang ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HANGS = 120.0  # seconds: what is not so by then will not be


def until(condition: Callable[..., T], seconds: float = HANGS) -> T:
    """What it says once that is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "what the test waits for did not come"
        time.sleep(0.02)
    return found


def waits(pid: int) -> bool:
    """Whether its main thread is asleep, and stays so for a while: a program that starts also waits, for its files."""
    for _ in range(10):
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] not in "SD":
                return False
        time.sleep(0.02)
    return True
