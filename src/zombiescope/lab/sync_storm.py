"""One program writes far more than its disk takes; a daemon that syncs its log to the same disk waits for all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._file_systems import file_system_user
from zombiescope.lab._loop_disk import limit_speed, loop_disk
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(chain=("sync_storm",), subject="node", silent=(*_OTHERS, "direct_reclaim", "frozen_filesystem"))
NEEDS = ("root",)
SECONDS = 14.0
SPEED = 4 << 20  # bytes a second that the disk takes
SIZE = 192 << 20  # bytes that are written to it over and over


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        disk, folder = undo.enter_context(loop_disk("sync", 256 << 20))
        daemons = [undo.enter_context(file_system_user("logs", f"{folder}/log{it}", "0.2", "synced")) for it in (1, 2)]
        # As slow for everybody, the kernel's own writing included; for this disk only.
        undo.callback(limit_speed, disk, 0)
        limit_speed(disk, round(SPEED / scale))
        writer = undo.enter_context(file_system_user("fills", f"{folder}/dump", str(SIZE), str(64 << 20)))
        yield Fault(subject="node", says=f"process {writer} fills {disk}; processes {daemons} wait to sync a line")
