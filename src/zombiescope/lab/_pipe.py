"""A pipe that is written to and not read: roles of the lab, gone with their starter."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import name_for
from zombiescope.lab._worker import LONGEST, play, ready, worker


@contextmanager
def unread_pipe(pause: float = LONGEST) -> Iterator[tuple[int, int]]:
    """A service that prints to a pipe, and a log driver that reads a page of it after each pause; their pids.

    By default it never does.
    """
    pipe = f"/run/{name_for('pipe')}"
    os.mkfifo(pipe, 0o600)
    try:
        with worker(__name__, "neglects", pipe, str(pause)) as reader, worker(__name__, "prints", pipe) as writer:
            yield writer, reader
    finally:
        os.unlink(pipe)


def _neglects(pipe: str, pause: str) -> None:
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as held:
        os.setpgid(0, 0)  # a service of its own, as a log driver is
        ready()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            time.sleep(float(pause))
            held.read(4096)


def _prints(pipe: str) -> None:
    """Lines of a log, some a second, until the pipe is full."""
    with open(pipe, "wb", buffering=0) as log:
        ready()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            log.write(b"x" * 4096)
            time.sleep(0.001)


_ROLES: dict[str, Callable[..., None]] = {"neglects": _neglects, "prints": _prints}

if __name__ == "__main__":
    play(_ROLES)
