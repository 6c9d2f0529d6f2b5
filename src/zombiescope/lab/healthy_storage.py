"""Control: a snapshot freezes a file system for a moment, a FUSE daemon is slow, a dump is written beside a sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._file_systems import file_system_user, fuse_mount, thawed
from zombiescope.lab._loop_disk import loop_disk
from zombiescope.lab._pipe import unread_pipe
from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth

TRUTH = Truth(silent=(*CPU_FAULTS, "frozen_filesystem", "dead_mount", "sync_storm", "disk_stall", "pipe_full"))
NEEDS = ("root", "fuse")
SECONDS = 14.0
FROZEN, BETWEEN = 1.0, 3.0  # seconds of a freeze, and until the next
ANSWERS = 0.3  # seconds for a question, as a store across an ocean
READS = 0.5  # seconds between two pages that a reader takes out of its pipe: the writer waits for it all the time
DUMPED = 8 << 20  # bytes a second


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        _disk, folder = undo.enter_context(loop_disk("healthy", 128 << 20))
        undo.enter_context(file_system_user("logs", f"{folder}/log", "0.1", "synced"))
        undo.enter_context(file_system_user("fills", f"{folder}/dump", str(64 << 20), str(round(DUMPED * scale))))
        undo.callback(thawed, folder)  # after who freezes it has ended, before who writes to it: they cannot be killed
        undo.enter_context(file_system_user("freezes", folder, str(FROZEN), str(BETWEEN)))
        slow, _daemon = undo.enter_context(fuse_mount("slow", ANSWERS))
        undo.enter_context(file_system_user("looks", slow, "0.01"))
        undo.enter_context(unread_pipe(READS))
        yield Fault(subject="node", says=f"{folder} is frozen for moments, and {slow} answers slowly")
