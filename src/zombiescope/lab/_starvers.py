"""Processes of the CPU scenarios, one kind of work each."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from zombiescope.lab._scenario import PREFIX
from zombiescope.lab._worker import LONGEST, play, ready, worker

MOST_CHILDREN = 2_000  # zombies that one parent adds: far below any limit of pids
PRIORITY = 50  # real-time, in the middle; kernel threads for interrupts have the same
BUSY, REST = 0.9, 0.05  # seconds of each burst and pause; real-time throttling would stop it after 0.95 of each second


def starver(role: str, *argv: str, within: Sequence[str] = ()) -> AbstractContextManager[int]:
    """A process in one of the roles below, already working on entry; `within` is a command that runs it."""
    return worker(__name__, role, *argv, within=within)


def _spin(core: str = "") -> None:
    """A busy loop in user code, on one core if one is named."""
    if core:
        os.sched_setaffinity(0, {int(core)})
    ready()
    while True:
        pass


def _hog(core: str) -> None:
    """The same at real-time priority, with a rest in each second."""
    os.sched_setaffinity(0, {int(core)})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        print("real-time priority is not allowed here (CAP_SYS_NICE, cpu.rt_runtime_us)", flush=True)
        return
    ready()
    while True:
        end = time.monotonic() + BUSY
        while time.monotonic() < end:
            pass
        time.sleep(REST)


def _neglect(children: str) -> None:
    """A parent that does not reap its zombie children, and goes on making them."""
    for _ in range(int(children)):
        if not os.fork():
            os._exit(0)
    ready()
    end = time.monotonic() + LONGEST
    for _ in range(MOST_CHILDREN):
        if time.monotonic() > end:
            return
        if not os.fork():
            os._exit(0)
        time.sleep(0.1)
    time.sleep(max(end - time.monotonic(), 0.0))


def _vfork(fifo: str) -> None:
    """A parent blocked in vfork(): its child, which shares its memory, waits for a write to a FIFO."""
    ready()
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, fifo, os.O_RDONLY, 0)])


def _fork() -> None:
    """Children that exit at once, one after the other, as a shell makes them."""
    ready()
    os.execv("/bin/sh", ["sh", "-c", f"printf {PREFIX}fork > /proc/$$/comm; while :; do (:); done"])


def _send(address: str) -> None:
    """A steady stream of packets, to keep a NAPI thread busy."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        ready()
        while True:
            for _ in range(20):
                sender.sendto(b"x" * 200, (address, 9))
            time.sleep(0.002)


def _offload(nic: str, *settings: str) -> None:
    """Set features of an interface, as `ethtool -K` does: gro=1 tso=0 tx=0. GRO makes veth use threaded NAPI."""
    commands = {"tx": 0x17, "tso": 0x1F, "gro": 0x2C}  # ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGRO
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for setting in settings:
            name, _, value = setting.partition("=")
            order = ctypes.create_string_buffer(struct.pack("II", commands[name], int(value)))
            request = struct.pack("16sP", nic.encode(), ctypes.addressof(order))
            fcntl.ioctl(any_socket, 0x8946, request.ljust(40, b"\0"))  # SIOCETHTOOL
    if "gro=1" in settings:
        with open(f"/sys/class/net/{nic}/threaded", "w") as threaded:
            threaded.write("1")
    ready()


_ROLES: dict[str, Callable[..., None]] = {
    "spin": _spin,
    "hog": _hog,
    "neglect": _neglect,
    "vfork": _vfork,
    "fork": _fork,
    "send": _send,
    "offload": _offload,
}


if __name__ == "__main__":
    play(_ROLES)
