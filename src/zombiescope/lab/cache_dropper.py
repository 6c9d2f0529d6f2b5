"""A job drops the page cache every few seconds, and a program reads its file from a slow disk again each time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._file_systems import file_system_user
from zombiescope.lab._loop_disk import READ_LIMIT, limit_speed, loop_disk
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(chain=("cache_dropper",), subject=rf"process:{PREFIX}drops\[\d+\]", silent=(*_OTHERS, "direct_reclaim"))
NEEDS = ("root",)
SECONDS = 14.0
FILE = 8 << 20  # bytes
SPEED = 4 << 20  # bytes a second: two seconds for the file, nothing from the page cache
FIRST, PAUSE = 6.0, 4.0  # seconds until the first drop, and between two: before it, all is read from memory


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        disk, folder = undo.enter_context(loop_disk("cache", 64 << 20))
        path = f"{folder}/program"
        with open(path, "wb") as file:
            file.write(os.urandom(FILE))
            os.fsync(file.fileno())
        limit_speed(disk, round(SPEED / max(scale, 0.1)), READ_LIMIT)
        undo.callback(limit_speed, disk, 0, READ_LIMIT)
        reader = undo.enter_context(file_system_user("reads", path, "0.2"))
        dropper = undo.enter_context(file_system_user("drops", str(FIRST), str(PAUSE)))
        yield Fault(
            subject=f"process:{dropper}", says=f"it drops the page cache, and process {reader} reads from {disk}"
        )
