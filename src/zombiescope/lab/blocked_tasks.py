"""Five processes are blocked in the kernel: each waits for its vfork child, which waits for a write to a FIFO."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth, name_for
from zombiescope.lab._starvers import starver

TRUTH = Truth(
    chain=("blocked_tasks",),
    unexplained=True,  # we have no sign for what they wait for here
    subject="node",
    silent=CPU_CAUSES,
)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
BLOCKED = 5


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with (
        tempfile.TemporaryDirectory(prefix=f"{name_for('blocked')}-") as folder,
        ExitStack() as held,
        ExitStack() as blocked,
    ):
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        try:
            for _ in range(max(1, round(BLOCKED * scale))):
                blocked.enter_context(starver("vfork", fifo))
            yield Fault(subject="node", says="processes are blocked on vfork children that wait for a FIFO")
        finally:
            # Opening the FIFO for writing unblocks all, also a child that opens it late; only then can they exit.
            held.callback(os.close, os.open(fifo, os.O_RDWR))
