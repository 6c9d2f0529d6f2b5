"""Mounts that come and go in front of a running systemd: a role of the lab, gone with its starter."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import AbstractContextManager

from zombiescope.lab._worker import LONGEST, play, ready, worker

_NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
_MS_BIND, _MNT_DETACH = 4096, 2


def mounting(pid: int, many: int, each: float) -> AbstractContextManager[int]:
    """A process that makes `many` mounts in the mount namespace of `pid`, then adds and removes `each` a second."""
    return worker(__name__, "mounts", str(pid), str(many), str(each))


def _mounts(pid: str, many: str, each: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    root, space = (os.open(f"/proc/{pid}/{it}", os.O_RDONLY) for it in ("root", "ns/mnt"))
    if libc.setns(space, _NEW_NAMESPACE):
        print(f"cannot enter the mounts of {pid}: {os.strerror(ctypes.get_errno())}", flush=True)
        return
    os.fchdir(root)
    os.chroot(".")
    top = "/run/zslab-volumes"
    os.mkdir(top)
    libc.mount(b"tmpfs", top.encode(), b"tmpfs", ctypes.c_ulong(0), None)
    for number in range(int(many) + 1):
        os.mkdir(f"{top}/{number}")
        libc.mount(f"{top}/{number}".encode(), f"{top}/{number}".encode(), None, ctypes.c_ulong(_MS_BIND), None)
    ready()
    last = f"{top}/{many}".encode()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        libc.umount2(last, _MNT_DETACH)
        time.sleep(0.5 / float(each))
        libc.mount(last, last, None, ctypes.c_ulong(_MS_BIND), None)
        time.sleep(0.5 / float(each))


if __name__ == "__main__":
    play({"mounts": _mounts})
