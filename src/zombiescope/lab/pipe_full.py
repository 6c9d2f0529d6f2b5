"""A service stops at a print: its log driver holds the other end of the pipe and does not read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._pipe import unread_pipe
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth

TRUTH = Truth(chain=("pipe_full",), subject=rf"process:{PREFIX}neglects\[\d+\]", silent=CPU_CAUSES)
NEEDS = ("root",)
SECONDS = 14.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - a full pipe is full
    with unread_pipe() as (writer, reader):
        yield Fault(
            subject=f"process:{PREFIX}neglects[{reader}]", says=f"process {reader} does not read what {writer} prints"
        )
