"""`lab clean`: what a killed run left is removed, what a run at work has is left alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from zombiescope.lab._litter import clean
from zombiescope.lab._scenario import PREFIX, name_for
from zombiescope.lab._zombies import memory_folder


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.kernel
def test_only_what_has_no_maker_any_more_is_removed() -> None:
    folder = Path(memory_folder())
    dead, mine = folder / f"{PREFIX}left-{gone()}", folder / name_for("at-work")
    file, other = Path("/dev/shm") / f"{PREFIX}left-{gone()}", Path("/dev/shm") / f"not-{PREFIX}{gone()}"
    try:
        for path in (dead, dead / "below", mine):
            path.mkdir()
        file.write_text("x")
        other.write_text("x")
        removed = clean()
        assert f"cgroup {dead}" in removed and str(file) in removed
        assert not dead.exists() and not file.exists()
        assert mine.exists() and other.exists() and os.path.basename(other) not in " ".join(removed)
    finally:
        for path in (dead / "below", dead, mine):
            if path.exists():
                path.rmdir()
        for path in (file, other):
            path.unlink(missing_ok=True)
