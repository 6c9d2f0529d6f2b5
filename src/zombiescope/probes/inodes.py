"""How many inodes each local file system of the node has, and how many are in use: "no space left" with space left.

Overhead: the table of mounts, 7 µs a line, and 30 µs for each of at most `MOST` file systems, once a minute. A table of
    more than `LONGEST` bytes, some 8,000 mounts, is not read: its length would be the cost.
Kernel: statfs(2) of ext4, XFS and tmpfs counts in memory and asks no disk. Only these are asked, and only where every
    mount on the way is of this machine as well: a network or FUSE file system could let us wait. The names on the way
    belong to root alone, so that nobody else can lead us elsewhere; they are in memory for as long as the mount is.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.text import lines

EVERY = 60.0
USED, LIMIT = "inodes_used", "inodes_limit"
GIVES = (USED, LIMIT)
LONGEST = 1 << 20  # bytes of the table of mounts
MOST = 50  # file systems: a node has one for each disk, and some in memory
_SOURCES = ("/proc/1/mountinfo", "/proc/self/mountinfo")
_ASKED = ("ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs")
_PASSED = (*_ASKED, "btrfs", "overlay", "rootfs", "devtmpfs", "ramfs")  # on the way: they wait for no other machine
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    number: str
    parent: str
    device: str  # major:minor
    place: str
    writable: bool
    kind: str


def read(host: Host) -> Iterator[Reading]:
    if not host.live:
        raise Unreadable("$ df -i", "a copy of files has no file systems to ask")
    at = host.now()
    for mount in local(parse(_mounts(host)))[:MOST]:
        counted = _counted(host.real(mount.place), mount.device)
        if counted is None:
            continue
        for what, value in zip(GIVES, counted, strict=True):
            source = shown_by("df", "-i", mount.place)
            yield Reading(what=what, subject=f"mount:{mount.place}", value=value, at=at, source=source)


def _mounts(host: Host) -> str:
    try:
        return host.read(_SOURCES[0], most=LONGEST)
    except Unreadable as error:
        if "denied" not in error.why and "permitted" not in error.why:
            raise
        return host.read(_SOURCES[1], most=LONGEST)


def local(mounts: list[Mount]) -> list[Mount]:
    """Those that may be asked, each device once: writable, on top where they are mounted, and nothing foreign above."""
    by_number = {it.number: it for it in mounts}
    on_top = {it.place: it for it in mounts}
    found: dict[str, Mount] = {}
    for mount in mounts:
        if mount.kind in _ASKED and mount.writable and on_top[mount.place] is mount and _near(mount, by_number):
            found.setdefault(mount.device, mount)
    return list(found.values())


def _near(mount: Mount, by_number: dict[str, Mount]) -> bool:
    """Whether all that it is mounted on is of this machine."""
    for _ in range(len(by_number)):
        above = by_number.get(mount.parent)
        if above is None or above is mount:
            return True
        if above.kind not in _PASSED:
            return False
        mount = above
    return False


def _counted(path: str, device: str) -> tuple[int, int] | None:
    """Inodes in use, and how many there may be; None where it has no such limit or is not what the table says."""
    try:
        if not _roots_own(path):
            return None
        seen = os.stat(path).st_dev
        told = os.statvfs(path)
    except OSError:
        return None
    if f"{os.major(seen)}:{os.minor(seen)}" != device or not told.f_files:
        return None
    return told.f_files - told.f_ffree, told.f_files


def _roots_own(path: str) -> bool:
    place = ""
    for part in os.path.dirname(path).split("/"):
        place += f"{part}/"
        found = os.lstat(place.rstrip("/") or "/")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid:
            return False
    return True


# 36 35 98:0 / /mnt/a\040b rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue
def parse(text: str) -> list[Mount]:
    found = []
    for line in lines(text):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) < 6 or not kind:
            continue
        number, parent, device, _root, place, options = fields[:6]
        place = _ESCAPED.sub(lambda it: chr(int(it[1], 8)), place)
        writable = "rw" in options.split(",") and "rw" in after.rpartition(" ")[2].split(",")
        found.append(Mount(number, parent, device, place, writable, kind))
    return found
