"""A capture whose packet rings take pages that no line of /proc/meminfo counts: a role of the lab."""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from zombiescope.lab._worker import LONGEST, play, ready, worker

_SOL_PACKET, _RX_RING = 263, 5  # include/uapi/linux/if_packet.h
BLOCK, FRAME = 1 << 20, 2_048  # bytes
PAUSE = 0.025  # seconds after each ring: to clear its pages must not keep a core busy


def packet_rings(role: str, *argv: str) -> AbstractContextManager[int]:
    """A process in the role below, already at work on entry."""
    return worker(__name__, role, *argv, within=("unshare", "--net"))


def _rings(each: str, most: str) -> None:
    """One ring after the other, of `each` bytes, until all have `most`; in a network namespace without packets."""
    kept: list[socket.socket] = []
    blocks = max(int(each) // BLOCK, 1)
    _touch(int(most))
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        if (len(kept) + 1) * blocks * BLOCK <= int(most):
            ring = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            asked = struct.pack("4I", BLOCK, blocks, FRAME, blocks * (BLOCK // FRAME))
            ring.setsockopt(_SOL_PACKET, _RX_RING, asked)
            kept.append(ring)
        time.sleep(PAUSE)


def _touch(size: int) -> None:
    """Have so much memory backed: a machine whose host gives pages slowly would be busy with that, not with us."""
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


_ROLES: dict[str, Callable[..., None]] = {"rings": _rings}

if __name__ == "__main__":
    play(_ROLES)
