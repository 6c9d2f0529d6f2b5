"""The mount that a blocked process writes to: from its system call's file, without touching the file system itself.

A call that names its file by a path (open, rename) is not followed: the path is in the memory of the process.
"""

from __future__ import annotations

import platform
import re
from typing import NamedTuple

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.mounts import unescaped
from zombiescope.kernel.text import lines

FROZEN = ("percpu_rwsem_wait", "__percpu_down_read", "sb_start_write", "__sb_start_write", "sb_wait_write")
NODES_MOUNTS = "/proc/1/mountinfo"
MOST_MOUNTS = 8 << 20  # bytes of its table of mounts: 50,000 of them
# write, pwrite64, writev, pwritev, pwritev2, ftruncate, fallocate, fchmod, fchown: the file is the first argument.
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_BY_FILE = {
    "x86_64": frozenset({1, 18, 20, 296, 328, 77, 285, 91, 93}),
    "aarch64": frozenset({64, 68, 66, 70, 287, 46, 47, 52, 55}),
}
_CALL = re.compile(r"([0-9]{1,4}) 0x([0-9a-f]{1,8}) ")
_MOUNT_ID = re.compile(r"^mnt_id:\t([0-9]{1,10})$", re.MULTILINE)


class Written(NamedTuple):
    """A mount, as the process sees it and as the node does: a container has a table of mounts of its own."""

    words: str  # "/mnt/data (ext4 on /dev/sdb)"
    device: str  # "8:16", as the kernel numbers it in every table
    place: str  # where the node has the same device mounted; empty if nowhere, or if that could not be read


def mount_written(host: Host, pid: int) -> Written | None:
    """None where it is not known."""
    try:
        call = _CALL.match(host.read(f"/proc/{pid}/syscall", most=4096))
        if call is None or int(call[1]) not in _BY_FILE.get(platform.machine(), frozenset()):
            return None
        info = _MOUNT_ID.search(host.read(f"/proc/{pid}/fdinfo/{int(call[2], 16)}", most=65_536))
        its = parse_mount(host.read(f"/proc/{pid}/mountinfo", most=MOST_MOUNTS), info[1]) if info else None
    except Unreadable:
        return None  # it has exited, or we may not trace it
    if its is None:
        return None
    try:
        return Written(*its, parse_place(host.read(NODES_MOUNTS, most=MOST_MOUNTS), its[1]))
    except Unreadable:
        return Written(*its, "")


# 36 35 98:0 /mnt1 /mnt/data rw,noatime master:1 - ext4 /dev/root rw,errors=continue
def parse_mount(text: str, number: str) -> tuple[str, str] | None:
    """Of the mount with this number: where, its kind and its source; its device."""
    for line in lines(text):
        before, _, after = line.partition(" - ")
        fields, (kind, source) = before.split(" "), [*after.split(" "), "", ""][:2]
        if fields[0] == number and len(fields) > 4:
            return f"{fields[4]} ({kind} on {source})", fields[2]
    return None


def parse_place(text: str, device: str) -> str:
    """Where a device is mounted: with all of its folders if it is anywhere so."""
    rows = [fields for line in lines(text) if len(fields := line.split(" ", 5)) > 4 and fields[2] == device]
    rows.sort(key=lambda fields: fields[3] != "/")
    return unescaped(rows[0][4]) if rows else ""
