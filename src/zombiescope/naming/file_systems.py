"""Which file systems a process sees, and which of them answer by themselves.

A file of FUSE, NFS and the like is read from a program or a server that may have stopped: asking it could wait forever.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache

from zombiescope.core.errors import Unreadable

_MOST = 4 << 20  # bytes: 200 a mount
_FRESH = 5.0  # seconds
_MOST_TABLES = 64
# Those that only need a disk or memory. All others (fuse.*, nfs4, cifs, 9p, ceph, autofs, proc, …) are left alone.
_LOCAL = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2"),
        *("overlay", "aufs", "shiftfs", "tmpfs", "ramfs", "rootfs", "hugetlbfs"),
        *("squashfs", "erofs", "cramfs", "iso9660", "udf", "vfat", "exfat", "ntfs3"),
    }
)
# 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
_MOUNT = re.compile(r"^\d+ \d+ (\d+):(\d+) \S+ (\S+) [^\n]*? - (\S+)", re.MULTILINE)


class FileSystems:
    """The mounts of one process, as /proc/PID/mountinfo lists them.

    `own` is the device of our own root: a machine that runs from NFS or virtiofs cannot do without it anyway.
    """

    def __init__(self, text: str, own: tuple[int, int] | None = None) -> None:
        self._at: dict[str, str] = {}
        self._of: dict[tuple[int, int], str] = {}
        for major, minor, at, said in _MOUNT.findall(text):
            kind = "" if (int(major), int(minor)) == own else said
            self._at[re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), at).rstrip("/")] = kind
            self._of[int(major), int(minor)] = kind

    @classmethod
    def of(cls, process: str) -> FileSystems:
        """Those of a process: a pid, or "self"."""
        source = f"/proc/{process}/mountinfo"
        try:
            with open(source, encoding="utf-8", errors="surrogateescape") as file:
                return cls(file.read(_MOST), own_root())
        except OSError as error:
            raise Unreadable(source, (error.strerror or "").lower()) from None

    def check_path(self, path: str) -> None:
        """Unreadable if the path is on a file system that may not answer."""
        at = path
        while at not in self._at and at:
            at = at.rpartition("/")[0]
        _check(path, self._at.get(at, ""))

    def check_device(self, path: str, device: tuple[int, int]) -> None:
        """The same by the file's device, once it is known; that of a part of btrfs or overlay is not in the list."""
        if device in self._of:
            _check(path, self._of[device])


@cache
def own_root() -> tuple[int, int]:
    device = os.stat("/").st_dev
    return os.major(device), os.minor(device)


class MountTables:
    """The mounts of many processes, one table for each mount namespace: 5,000 mounts of 500 pods take 10 ms to parse.

    For some seconds only, as mounts come and go. Asked by several threads: at worst a table is read twice.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, FileSystems]] = {}

    def of(self, process: str) -> FileSystems:
        """Those of a process: a pid, or "self"."""
        namespace, now = mount_namespace(process), time.monotonic()
        read_at, table = self._known.get(namespace, (0.0, None))
        if table is None or now - read_at > _FRESH or not namespace:
            table = FileSystems.of(process)
            if len(self._known) >= _MOST_TABLES:
                self._known = {}
            self._known[namespace] = now, table
        return table


def mount_namespace(process: str) -> str:
    """The mount namespace of a process; "" if it is gone, or not ours to ask."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")
    except OSError:
        return ""


def _check(path: str, kind: str) -> None:
    if kind and kind not in _LOCAL:
        raise Unreadable(path, f"on a file system that may not answer ({kind})")
