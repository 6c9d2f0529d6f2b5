"""A network driver's counters: names and values, read by ioctl as `ethtool -S` does.

Kernel: net/ethtool/ioctl.c. Three calls: how many, their names, their values. A driver may change the number between
    two of them, and before 7b07be1ff1cb ("ethtool: Avoid overflowing userspace buffer on stats query", 2025) the
    kernel then wrote all of them, past the end of the buffer. So our buffer always has room for `MOST`, far more than
    any driver has; and we pass the number we expect, which newer kernels check.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import socket
import struct
from typing import NamedTuple

from zombiescope.core import Unreadable
from zombiescope.core.commands import shown_by

MOST = 1 << 15  # counters of one card: 512 queues with 50 each are 25,600
_SIOCETHTOOL = 0x8946
_GDRVINFO, _GSTRINGS, _GSTATS, _GSSET_INFO = 0x03, 0x1B, 0x1D, 0x37
_STATS = 1  # ETH_SS_STATS, the set of names that belongs to the values
_NAME = 32  # bytes of a name, ended by a NUL if it is shorter
_DRVINFO = 196  # bytes of struct ethtool_drvinfo: the number of the call, driver[32], version[32], …


class Driver(NamedTuple):
    name: str
    version: str


class Ethtool:
    """A socket with a buffer for the answers. An interface that is gone, or has no counters, is Unreadable."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        # Pages of the buffer that no answer reaches are never touched and cost nothing.
        self._room = mmap.mmap(-1, 64 + MOST * _NAME)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._room))

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Ethtool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def driver(self, nic: str) -> Driver:
        self._ask(nic, struct.pack("=I", _GDRVINFO), _DRVINFO)
        return Driver(_text(self._room[4:36]), _text(self._room[36:68]))

    def names(self, nic: str) -> list[str]:
        """The names of its counters, in the order of the values."""
        expected = self.count(nic)
        self._ask(nic, struct.pack("=III", _GSTRINGS, _STATS, expected), 12)
        (told,) = struct.unpack_from("=I", self._room, 8)
        self._check(nic, expected, told)
        return [_text(self._room[at : at + _NAME]) for at in range(12, 12 + told * _NAME, _NAME)]

    def values(self, nic: str, expected: int) -> list[int]:
        """One value for each name; Unreadable if their number has changed."""
        self._ask(nic, struct.pack("=II", _GSTATS, expected), 8)
        (told,) = struct.unpack_from("=I", self._room, 4)
        self._check(nic, expected, told)
        return list(struct.unpack_from(f"={told}Q", self._room, 8))

    def count(self, nic: str) -> int:
        self._ask(nic, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _STATS, 0), 24)
        (known,) = struct.unpack_from("=Q", self._room, 8)
        (told,) = struct.unpack_from("=I", self._room, 16)
        if not known or not told:
            raise Unreadable(_source(nic), "its driver counts nothing")
        self._check(nic, told, told)
        return int(told)

    def _ask(self, nic: str, question: bytes, size: int) -> None:
        name = nic.encode("utf-8", "surrogateescape")
        if not 0 < len(name) < 16 or b"\0" in name:
            raise Unreadable(_source(nic), "not the name of an interface")
        self._room[:size] = question.ljust(size, b"\0")
        try:
            fcntl.ioctl(self._socket, _SIOCETHTOOL, struct.pack("=16sQ16x", name, self._address))
        except OSError as error:
            raise Unreadable(_source(nic), (error.strerror or "").lower()) from error

    @staticmethod
    def _check(nic: str, expected: int, told: int) -> None:
        if told != expected:
            raise Unreadable(_source(nic), f"it now has {told:,} counters, not {expected:,}")
        if told > MOST:
            raise Unreadable(_source(nic), f"more than {MOST:,} counters")


def _source(nic: str) -> str:
    return shown_by("ethtool", "-S", nic)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
