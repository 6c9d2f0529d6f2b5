"""A FUSE file system is mounted whose daemon does not answer, and three programs look for files there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._file_systems import file_system_user, fuse_mount
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth
from zombiescope.lab._worker import LONGEST

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(chain=("dead_mount",), subject=rf"mount:/run/{PREFIX}dead-\d+", silent=(*_OTHERS, "disk_stall"))
NEEDS = ("root", "fuse")
SECONDS = 14.0
WAITING = 3


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        # They are ended after the mount is gone: until then nothing of them can be waited for.
        waiting = undo.enter_context(ExitStack())
        folder, daemon = undo.enter_context(fuse_mount("dead", LONGEST))
        for _ in range(max(1, round(WAITING * scale))):
            waiting.enter_context(file_system_user("looks", folder, "0.1"))
        yield Fault(subject=f"mount:{folder}", says=f"process {daemon} answers nobody who asks for a file in {folder}")
