"""Programs of the lab that wait, are refused or lose packets: each in one role, gone with its starter."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from zombiescope.lab._worker import LONGEST, die_with_parent, play, ready, worker

PORT = 7078


def staller(role: str, *argv: str, within: tuple[str, ...] = ()) -> AbstractContextManager[int]:
    """A process in one of the roles below, already at work on entry."""
    return worker(__name__, role, *argv, within=within)


def _forks(cgroup: str) -> None:
    """Start children in a cgroup until it refuses, and then go on trying, ten times a second."""
    with open(f"{cgroup}/cgroup.procs", "w") as procs:
        procs.write("0")
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        try:
            if not os.fork():
                die_with_parent()
                time.sleep(LONGEST)
                os._exit(0)
        except BlockingIOError:
            time.sleep(0.1)


def _unaccepting(address: str) -> None:
    """Listen with a queue of one, and never accept."""
    with socket.socket() as server:
        server.bind((address, PORT))
        server.listen(1)
        ready()
        time.sleep(LONGEST)


def _connects(address: str, each: str) -> None:
    """So many new connections a second; each is given up after a second."""
    tried: list[socket.socket] = []
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((address, PORT))
        tried.append(one)
        if len(tried) > int(each):
            tried.pop(0).close()
        time.sleep(1 / int(each))


def _writes(path: str, cgroup: str = "") -> None:
    """Write a page at a time and wait until each is on the disk."""
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as procs:
            procs.write("0")
    with open(path, "wb") as file:
        ready()
        until, place = time.monotonic() + LONGEST, 0
        while time.monotonic() < until:
            os.pwrite(file.fileno(), b"x" * 4096, place % 1024 * 4096)
            os.fdatasync(file.fileno())
            place += 1


_ROLES: dict[str, Callable[..., None]] = {
    "forks": _forks,
    "unaccepting": _unaccepting,
    "connects": _connects,
    "writes": _writes,
}

if __name__ == "__main__":
    play(_ROLES)
