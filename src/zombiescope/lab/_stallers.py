"""Programs of the lab that wait, are refused or lose packets: each in one role, gone with its starter."""

from __future__ import annotations

import mmap
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
    """Write a page at a time, past the page cache, and wait until each is on the disk."""
    page = mmap.mmap(-1, 4096)  # aligned, as direct I/O asks for
    with open(path, "wb") as file:
        file.write(bytes(4 << 20))
        os.fsync(file.fileno())
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as procs:
            procs.write("0")
    file_number = os.open(path, os.O_WRONLY | os.O_DIRECT)
    ready()
    until, place = time.monotonic() + LONGEST, 0
    while time.monotonic() < until:
        os.pwritev(file_number, [page], place % 1024 * 4096)
        place += 1


def _waits() -> None:
    """A heartbeat, ten times a second."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        time.sleep(0.1)


_ROLES: dict[str, Callable[..., None]] = {
    "forks": _forks,
    "unaccepting": _unaccepting,
    "connects": _connects,
    "writes": _writes,
    "waits": _waits,
}

if __name__ == "__main__":
    play(_ROLES)
