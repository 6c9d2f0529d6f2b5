"""A small disk of one's own: an ext4 file system in a file, gone with all that is cached of it when it is unmounted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT


@contextmanager
def loop_disk(folder: Path, megabytes: int = 64) -> Iterator[Path]:
    image, point = folder / "disk.img", folder / "disk"
    point.mkdir()
    image.write_bytes(b"")
    with image.open("r+b") as file:
        file.truncate(megabytes << 20)
    # Every inode and block map is written now, not by the kernel in the background later.
    options = "lazy_itable_init=0,lazy_journal_init=0"
    for argv in (["mkfs.ext4", "-q", "-E", options, str(image)], ["mount", "-o", "loop", str(image), str(point)]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{CANNOT}mount a disk in a file: {done.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)
        image.unlink()
