"""Cgroups of the lab: gone when the scenario is, though its last process has only just been killed."""

from __future__ import annotations

import os
import time

_PATIENCE = 60.0  # seconds on a machine that is starved already


def remove(folder: str) -> None:
    """A cgroup, and those right below it; one with a dying process in it can be removed a moment later."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            for child in os.scandir(folder):
                if child.is_dir(follow_symlinks=False):
                    os.rmdir(child.path)
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
