"""Where dead cgroups are made, and what they are pinned by; all of it goes with the test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.treatment.pinned_cgroups import NAME, SHM, Parent, device_of
from tests.waiting import HANGS

from zombiescope.kernel.file_handles import mounts
from zombiescope.lab._zombies import memory_folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system whose pages are cached and can be dropped, and whose files have numbers to open."""
    kinds = {place.kind for place in mounts().get(device_of(tmp_path), [])}
    if not kinds & {"ext4", "xfs", "f2fs"}:
        pytest.skip(f"{CANNOT}the tests' own folder is not on a disk, but on {kinds}; see pytest --basetemp")
    yield tmp_path
    for file in tmp_path.iterdir():  # pytest would keep them, and they our zombies
        file.unlink()


@pytest.fixture
def shm() -> Iterator[Path]:
    yield SHM / NAME
    (SHM / NAME).unlink(missing_ok=True)


@pytest.fixture
def parent() -> Iterator[Parent]:
    """Makes cgroups that go away with the test, whatever happens in it."""
    made: list[Path] = []

    def make(suffix: str) -> Path:
        path = Path(memory_folder()) / f"{NAME}-{suffix}"
        path.mkdir()
        made.append(path)
        if (path / "cgroup.subtree_control").exists():
            (path / "cgroup.subtree_control").write_text("+memory")
        return path

    yield make
    deadline = time.monotonic() + HANGS  # a folder cannot go before the process that has just ended in it
    while made:
        try:
            for folder in (*filter(Path.is_dir, made[-1].iterdir()), made[-1]):
                folder.rmdir()
            made.pop()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
