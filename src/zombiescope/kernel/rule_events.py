"""Changes of the routing rules, as the kernel announces them: each with the process that asked for it.

Kernel: rtnetlink(7), groups RTNLGRP_IPV4_RULE and RTNLGRP_IPV6_RULE; net/core/fib_rules.c, notify_rule_change, which
    names the port of who asked: its pid, if it has one socket. Listening takes no lock. Asking for the rules would take
    that of all network settings, for which a sick node may wait forever.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from zombiescope.core import Unreadable
from zombiescope.core.host import why

SOURCE = "$ ip monitor rule"
_GROUPS = (8, 19)  # RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_NEW, _DELETED = 32, 33  # RTM_NEWRULE, RTM_DELRULE
_HEAD, _RULE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=8BI"), struct.Struct("=HH")
_PRIORITY, _TABLE = 6, 15  # FRA_PRIORITY, FRA_TABLE
MOST = 4_096  # changes taken at a time: more are left for the next sample
_ROOM = 1 << 16  # bytes of one message; the kernel's are a few hundred


@dataclass(frozen=True, slots=True)
class Change:
    removed: bool
    version: int  # 4 or 6
    priority: int
    table: int
    port: int  # who asked: mostly its pid; 0 for the kernel itself

    @property
    def words(self) -> str:
        return f"{self.priority}: IPv{self.version} lookup {self.table}"


class RuleEvents:
    """A socket that hears of every change since it was opened."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
            self._socket.setblocking(False)
            self._socket.bind((0, 0))
            for group in _GROUPS:
                self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        except OSError as error:
            raise Unreadable(SOURCE, why(error)) from error

    def close(self) -> None:
        self._socket.close()

    def read(self) -> tuple[list[Change], bool]:
        """What changed since the last time, and whether some of it was missed."""
        found: list[Change] = []
        while len(found) < MOST:
            try:
                message, (sender, _groups) = self._socket.recvfrom(_ROOM)
                found += parse(message) if sender == 0 else []  # from the kernel, not from another process
            except BlockingIOError:
                return found, False
            except OSError:  # ENOBUFS: they came faster than they were read
                return found, True
        return found, False


def parse(message: bytes) -> list[Change]:
    """The changes in what the socket gave; what is cut short or of another kind is left out."""
    found, place = [], 0
    while place + _HEAD.size <= len(message):
        length, kind, _flags, _number, port = _HEAD.unpack_from(message, place)
        if length < _HEAD.size:
            break
        body = message[place + _HEAD.size : place + length]
        if kind in (_NEW, _DELETED) and len(body) >= _RULE.size:
            family, *_rest, table, _a, _b, _c, _d = _RULE.unpack_from(body)
            numbers = _numbers(body[_RULE.size :])
            version = 6 if family == socket.AF_INET6 else 4
            found.append(Change(kind == _DELETED, version, numbers.get(_PRIORITY, 0), numbers.get(_TABLE, table), port))
        place += (length + 3) & ~3
    return found


def _numbers(attributes: bytes) -> dict[int, int]:
    """The attributes that are one number of 32 bits."""
    found, place = {}, 0
    while place + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, place)
        if length < _ATTRIBUTE.size:
            break
        if length == 8 and place + 8 <= len(attributes):
            found[kind] = int(struct.unpack_from("=I", attributes, place + 4)[0])
        place += (length + 3) & ~3
    return found
