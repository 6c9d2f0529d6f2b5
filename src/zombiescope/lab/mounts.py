"""Thousands of mounts in the host's mount table, as left by volumes that are never unmounted.

All are below one private mount, so that unmounting that one removes all of them at once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import UserError
from zombiescope.lab._scenario import KERNEL_CAUSES, PREFIX, Fault, Truth, name_for

# Nothing reads the table all the time here, and it does not grow: it costs nobody anything.
TRUTH = Truth(chain=("mount_explosion",), noted=True, subject="node", silent=KERNEL_CAUSES)
NEEDS = ("root",)
SECONDS = 3.0
MOUNTS, MOST = 3_500, 5_000
_MS_BIND, _MS_PRIVATE, _MNT_DETACH = 4096, 1 << 18, 2  # include/uapi/linux/mount.h


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    count = min(MOST, round(MOUNTS * max(scale, 1.0)))
    top = f"/run/{name_for('mounts')}"
    os.mkdir(top)
    try:
        _mount("tmpfs", top, "tmpfs", 0)
        try:
            _mount("", top, "", _MS_PRIVATE)
            for number in range(count):
                folder = f"{top}/{PREFIX}volume-{number}"
                os.mkdir(folder)
                _mount(folder, folder, "", _MS_BIND)
            yield Fault(subject="node", says=f"{count:,} mounts below {top}")
        finally:
            _libc().umount2(top.encode(), _MNT_DETACH)
    finally:
        os.rmdir(top)


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    if _libc().mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None):
        raise UserError(f"mount {target}: {os.strerror(ctypes.get_errno())}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
