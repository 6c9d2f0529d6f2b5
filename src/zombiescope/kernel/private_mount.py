"""Read a kernel file system even where it is not mounted: tracefs, debugfs.

If it is mounted already, that mount is used; from a container, that of the node. Else it is mounted for this process
alone: since 93766fbd2696 ("vfs: syscall: Add fsmount() to create a mount for a superblock", in v5.2) a mount can be
held by a file descriptor and never be attached anywhere, so nothing on the node changes and nothing is left behind, not
even by kill -9.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zombiescope.core.errors import Unreadable
from zombiescope.core.host import Host

USUAL = {"tracefs": ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"), "debugfs": ("/sys/kernel/debug",)}
_WITNESS = {
    "tracefs": "instances",
    "debugfs": "sched",
}  # a name that distinguishes the file system from an empty folder
# The same numbers on every architecture: these calls came after the tables were unified.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1


@contextmanager
def mounted(kind: str, host: Host | None = None) -> Iterator[str]:
    """A path below which the file system can be read, for as long as the context lasts."""
    for path in _places(kind, host):
        try:
            if _WITNESS[kind] in os.listdir(path):
                yield path
                return
        except OSError:  # absent or forbidden: then mount it privately
            continue
    handle = _mount(kind)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _places(kind: str, host: Host | None) -> Iterator[str]:
    yield from USUAL[kind]
    if host is not None:
        for path in USUAL[kind]:
            with suppress(Unreadable):
                yield host.real(path)


def _mount(kind: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        result = int(libc.syscall(number, *arguments))
        if result < 0:
            code = ctypes.get_errno()
            cure = f"needs root, or: mount -t {kind} nodev {USUAL[kind][0]}"
            raise Unreadable(
                USUAL[kind][0], f"not mounted, and cannot be mounted ({os.strerror(code).lower()}); {cure}"
            )
        return result

    context = call(_FSOPEN, kind.encode(), _CLOEXEC)
    try:
        call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_FSMOUNT, context, _CLOEXEC, 0)
    finally:
        os.close(context)
