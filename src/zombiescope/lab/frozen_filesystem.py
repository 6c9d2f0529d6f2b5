"""A file system is frozen, as for a snapshot, and not thawed; two daemons that log to it hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._file_systems import file_system_user, frozen
from zombiescope.lab._loop_disk import loop_disk
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(
    chain=("frozen_filesystem",), subject=rf"mount:/var/tmp/{PREFIX}snapshot-\d+.*", silent=(*_OTHERS, "disk_stall")
)
NEEDS = ("root",)
SECONDS = 14.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        disk, folder = undo.enter_context(loop_disk("snapshot", 64 << 20))
        for place in range(max(1, round(2 * scale))):
            undo.enter_context(file_system_user("logs", f"{folder}/{place}", "0.1"))
        undo.enter_context(frozen(folder))
        yield Fault(subject=f"mount:{folder}", says=f"{folder} ({disk}) is frozen and takes no writes")
