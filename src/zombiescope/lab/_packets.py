"""Senders and receivers of the network scenarios: roles of the lab, gone with their starter."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from zombiescope.lab._worker import LONGEST, play, ready, worker

PORT = 7079
_SNDBUFFORCE = 32  # include/uapi/asm-generic/socket.h
_TICK = 0.01  # seconds between two bursts
_AT_ONCE = 50  # neighbours asked for in a burst: each asks by broadcast, and a core's backlog holds 1,000 packets


def packet_user(role: str, *argv: str, within: Sequence[str] = ()) -> AbstractContextManager[int]:
    """A process in one of the roles below, already at work on entry."""
    return worker(__name__, role, *argv, within=within)


def _sends(address: str, each: str, core: str = "") -> None:
    """So many small UDP packets a second, from one core if one is named."""
    if core:
        os.sched_setaffinity(0, {int(core)})
    burst = max(1, round(int(each) * _TICK))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        ready()
        until = time.monotonic() + LONGEST
        while (now := time.monotonic()) < until:
            for _ in range(burst):
                with suppress(ConnectionRefusedError):
                    sender.sendto(b"x" * 200, (address, PORT))
            time.sleep(max(_TICK - (time.monotonic() - now), 0.0))


def _receives(address: str, size: str, each: str) -> None:
    """Take in at most so many UDP packets a second, with a buffer of so many bytes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(size))
        receiver.bind((address, PORT))
        ready()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            receiver.recv(2048)
            time.sleep(1 / int(each))


def _asks(network: str, many: str) -> None:
    """A packet to each of so many neighbours that are not there, again and again, as a scan or a busy pod network."""
    addresses = [f"{network}.{10 + number // 250}.{1 + number % 250}" for number in range(int(many))]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        # A packet waits in the sender's buffer for its neighbour: 200 of them would fill the usual one.
        sender.setsockopt(socket.SOL_SOCKET, _SNDBUFFORCE, 32 << 20)
        ready()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            for number, address in enumerate(addresses):
                with suppress(OSError):  # no buffer space: the table is full
                    sender.sendto(b"x", (address, PORT))
                if number % _AT_ONCE == 0:
                    time.sleep(_TICK)


_ROLES: dict[str, Callable[..., None]] = {"sends": _sends, "receives": _receives, "asks": _asks}

if __name__ == "__main__":
    play(_ROLES)
