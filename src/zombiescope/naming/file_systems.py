"""Which file systems a process sees, and which of them answer by themselves.

A file of FUSE, NFS and the like is read from a program or a server that may have stopped: asking it could wait forever.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from functools import cache

from zombiescope.core.errors import Unreadable
from zombiescope.naming.layers import Layers, unescaped

_MOST = 4 << 20  # bytes: 200 a mount
_FRESH = 5.0  # seconds
_MOST_TABLES = 64
# Those that only need a disk or memory. All others (fuse.*, nfs4, cifs, 9p, ceph, autofs, proc, …) are left alone.
_LOCAL = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2"),
        *("tmpfs", "ramfs", "rootfs", "hugetlbfs"),
        *("squashfs", "erofs", "cramfs", "iso9660", "udf", "vfat", "exfat", "ntfs3"),
    }
)
_OVERLAY = "overlay"  # as its layers are
_DEEPEST = 4  # overlays over overlays; the kernel allows two
# 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
_MOUNT = re.compile(r"^(\d+) \d+ (\d+):(\d+) \S+ (\S+) [^\n]*? - (\S+) (\S*) ?(\S*)", re.MULTILINE)
_MOUNT_ID = re.compile(rb"^mnt_id:\s+(\d+)", re.MULTILINE)  # since v3.15
_Device = tuple[int, int]


class FileSystems:
    """The mounts of one process, as /proc/PID/mountinfo lists them."""

    def __init__(
        self, text: str, own: _Device | None = None, host: FileSystems | None = None, root: str | None = None
    ) -> None:
        """`own` is the device of our own root: a machine that runs from NFS or virtiofs cannot do without it anyway.

        `host`: the mounts of the host, if this is not them; then `root` is where its root is. What an overlay is made
        of is believed if the host has mounted it: in a mount namespace of his own anybody mounts one over FUSE, and
        hides that.
        """
        self._host, self._root = host or self, root
        self._at: dict[str, _Device] = {}
        self._mounted: dict[int, _Device] = {}
        self._kinds: dict[_Device, str] = {}
        self._overlays: dict[_Device, str] = {}  # their options
        self._judged: dict[_Device, str] = {}  # 6 µs for each part of the path of each layer
        for number, major, minor, at, kind, _, options in _MOUNT.findall(text):
            device = self._mounted[int(number)] = int(major), int(minor)
            self._at[unescaped(at).rstrip("/")] = device
            self._kinds[device] = "" if device == own else kind
            if kind == _OVERLAY:
                self._overlays[device] = options

    @classmethod
    def of(cls, process: str, host: FileSystems | None = None, root: str | None = None) -> FileSystems:
        """Those of a process: a pid, or "self"."""
        source = f"/proc/{process}/mountinfo"
        try:
            with open(source, encoding="utf-8", errors="surrogateescape") as file:
                return cls(file.read(_MOST), own_root(), host, root)
        except OSError as error:
            raise Unreadable(source, (error.strerror or "").lower()) from None

    def check_path(self, path: str) -> None:
        """Unreadable if the path is on a file system that may not answer."""
        self._check(path, self._device_at(path))

    def check_file(self, path: str, descriptor: int, device: _Device) -> None:
        """The same for a file that was found, not open for reading: by its mount, in this list or the host's.

        What was mapped before its process left a mount namespace has another mount, on a device that is in the lists;
        that of a part of btrfs is not. A file system that is on no list was taken off: who does so may hide FUSE.
        """
        mount, tables = _mount_of(descriptor), (self, self._host)
        device = next((it._mounted[mount] for it in tables if mount in it._mounted), device)
        if not device[0] and not any(device in it._kinds for it in tables):
            raise Unreadable(path, "on a file system that is not mounted any more")
        for table in tables:
            table._check(path, device)

    def _check(self, path: str, device: _Device | None) -> None:
        if device is not None and (kind := self._distant(device)):
            raise Unreadable(path, f"on a file system that may not answer ({kind})")

    def _device_at(self, path: str) -> _Device | None:
        """That of the nearest mount above a path; None if no mount is known."""
        at = path.rstrip("/")
        while at not in self._at and at:
            at = at.rpartition("/")[0]
        return self._at.get(at)

    def _distant(self, device: _Device, deep: int = 0) -> str:
        """What a file system is, if it may not answer; empty if it is local, or not known."""
        kind = self._kinds.get(device, "")
        if kind == _OVERLAY:
            host = self._host
            if device not in host._judged:
                host._judged[device] = host._overlaid(device, deep)
            return host._judged[device]
        return kind if kind and kind not in _LOCAL else ""

    def _overlaid(self, device: _Device, deep: int) -> str:
        if device not in self._overlays:
            return "overlay that the host has not mounted"
        if deep >= _DEEPEST:
            return "overlay over overlay"
        layers = Layers(self._root or "/", lambda path: bool(self._beneath(path, deep)))
        for layer in layers.of(self._overlays[device]):
            if layer is None:
                return "overlay with a layer that cannot be found"
            if kind := self._beneath(layer, deep):
                return f"overlay over {kind}"
        return ""

    def _beneath(self, path: str, deep: int) -> str:
        device = self._device_at(path)
        return "" if device is None else self._distant(device, deep + 1)


def _mount_of(descriptor: int) -> int:
    """The number of the mount that a file was found in; -1 if the kernel does not say."""
    with suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        if found := _MOUNT_ID.search(file.read(4096)):
            return int(found[1])
    return -1


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
            host = _host()
            table = (
                FileSystems.of(process, root=f"/proc/{host}/root")
                if namespace == mount_namespace(host)
                else FileSystems.of(process, self.of(host))
            )
            if len(self._known) >= _MOST_TABLES:
                self._known = {}
            self._known[namespace] = now, table
        return table


def _host() -> str:
    """Whose mounts are the host's: those of the first process, if we may ask."""
    return "1" if mount_namespace("1") else "self"


def mount_namespace(process: str) -> str:
    """The mount namespace of a process; "" if it is gone, or not ours to ask."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")
    except OSError:
        return ""
