"""Thousands of idle TCP connections whose timers expire together: a role of the lab, gone with its starter."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from zombiescope.lab._worker import LONGEST, play, ready, worker

_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40  # include/uapi/linux/sockios.h, if.h
_FROM_ONE = 20_000  # connections to one address: each needs a port of its own


def connections(role: str, *argv: str) -> AbstractContextManager[int]:
    """A process in the role below, already at work on entry."""
    return worker(__name__, role, *argv, within=("unshare", "--net"))


def _keeps(core: str, many: str) -> None:
    """So many connections on loopback, in a network namespace of its own; each asks once a second if it still lives.

    They are told so one after the other as fast as can be, so that their timers expire in the same few ticks. Then
    loopback is down: their packets would overflow the backlog of a core, which is another fault.
    """
    os.sched_setaffinity(0, {int(core)})
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with open("/proc/sys/net/core/somaxconn", "w") as file:  # of this namespace: all of them wait to be accepted
        file.write(str(2 * int(many)))
    _loopback(_IFF_UP | _IFF_RUNNING)
    server = socket.socket()
    server.bind(("", 0))
    server.listen(2 * int(many))
    port, clients = server.getsockname()[1], []
    for number in range(min(int(many), hard - 100)):
        client = socket.create_connection((f"127.0.0.{1 + number // _FROM_ONE}", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        clients.append(client)
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _loopback(0)
    ready()
    time.sleep(LONGEST)


def _loopback(flags: int) -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


_ROLES: dict[str, Callable[..., None]] = {"keeps": _keeps}

if __name__ == "__main__":
    play(_ROLES)
