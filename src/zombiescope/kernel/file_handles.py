"""Open a file by what one of its pages shows (device, inode number, generation).

open_by_handle_at(2) takes a handle that only the file system understands. Most put the inode number and the generation
into it; whether this one does, and how wide they are, is learnt from the handle of its own mount point.
Kernel: needs CAP_DAC_READ_SEARCH in the initial user namespace, and CONFIG_FHANDLE.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.memcg_records import Pin
from zombiescope.kernel.mounts import MOUNTINFO

SOURCE = "open_by_handle_at(2)"
Device = tuple[int, int]

# Handles of inode and generation, by type and size: FILEID_INO32_GEN of include/linux/exportfs.h (ext2 to ext4, f2fs,
# small XFS), and the same with XFS_FILEID_TYPE_64FLAG of fs/xfs/xfs_export.c, where the inode has 64 bits.
_FORMATS = {(0x01, 8): struct.Struct("=II"), (0x81, 12): struct.Struct("=QI")}
_HEAD = struct.Struct("=Ii")  # struct file_handle: bytes that follow, type
_MOST_BYTES = 128  # MAX_HANDLE_SZ
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: of the descriptor itself

_WHY = {
    errno.EPERM: "needs CAP_DAC_READ_SEARCH, and no seccomp filter that forbids it",
    errno.ESTALE: "no such file any more: removed, or its inode number was reused",
    errno.EOPNOTSUPP: "its file system has no handles",
    errno.ENOSYS: "the kernel was built without CONFIG_FHANDLE",
}

# glibc and musl have both on every architecture, so no system call numbers are needed.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One place where a file system can be reached."""

    device: Device
    whole: bool  # the whole file system, not only a folder of it
    point: str
    kind: str  # ext4, tmpfs


class Handles(Closing):
    """Opens files by inode number, on the file systems mounted in this mount namespace; a context manager."""

    def __init__(self) -> None:
        self.mounts = mounts()
        self._learnt: dict[Device, _FileSystem | Unreadable] = {}

    def open(self, device: Device, inode: int, generation: int) -> int:
        """A descriptor for reading, which the caller closes; Unreadable with the reason if it cannot be opened."""
        system = self._system(device)
        source = f"inode {inode} on {device[0]}:{device[1]}"
        try:
            handle = system.handle(inode, generation)
            # Opening a device or a pipe could have side effects: the type is checked first, without opening it.
            looked = system.open(handle, os.O_PATH)
            try:
                status = os.fstat(looked)
            finally:
                os.close(looked)
            if status.st_ino != inode or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise Unreadable(source, "not a regular file")
            return system.open(handle, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise Unreadable(source, why_not(error)) from None
        except struct.error:
            raise Unreadable(source, "this file system cannot have such an inode number") from None

    def disk_of(self, device: Device, inode: int) -> str:
        """The disk, if the page caches the disk itself: file-system metadata such as folders; "" if not.

        Such pages belong to the kernel's internal bdev file system, in which a disk's inode has the disk's number
        (bdev_alloc, block/bdev.c). Only disks with a file system that is mounted here count.
        """
        disk = inode >> 20, inode & 0xFFFFF
        if device[0] != 0 or device in self.mounts or disk not in self.mounts:
            return ""
        try:
            told = Host().read(f"/sys/dev/block/{disk[0]}:{disk[1]}/uevent").splitlines()
        except Unreadable:
            return ""
        return next((f"/dev/{line[8:]}" for line in told if line.startswith("DEVNAME=")), "")

    def write_back(self, pin: Pin) -> None:
        """Write the dirty pages of a file, if it can be opened."""
        with suppress(Unreadable, OSError):
            descriptor = self.open(pin.device, pin.inode, pin.generation)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        for system in self._learnt.values():
            if isinstance(system, _FileSystem):
                os.close(system.descriptor)
        self._learnt.clear()

    # There may be thousands of files on one file system: it is opened once, and a refusal is remembered too.
    def _system(self, device: Device) -> _FileSystem:
        if device not in self._learnt:
            try:
                self._learnt[device] = self._learn(device)
            except Unreadable as no:
                self._learnt[device] = no
        system = self._learnt[device]
        if isinstance(system, Unreadable):
            raise Unreadable(system.source, system.why)
        return system

    def _learn(self, device: Device) -> _FileSystem:
        source = f"device {device[0]}:{device[1]}"
        places = self.mounts.get(device, [])
        if not places:
            why = "not mounted here: in another mount namespace, or the kernel's own (file-system metadata)"
            raise Unreadable(source, why)
        # Major 0 has no block device: btrfs and overlay, whose handles hold more than we know, and network file
        # systems, whose server may be dead: opening even the mount point would then hang forever.
        kind = places[0].kind
        if device[0] == 0 or kind.startswith("fuse"):
            raise Unreadable(source, f"files on {kind} cannot be opened by inode number")
        why = "every mount point of it is hidden under another mount"
        for place in places:
            try:
                descriptor = os.open(place.point, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                why = f"{place.point}: {why_not(error)}"
                continue
            try:
                system = _FileSystem(descriptor, device, kind)
            except OSError as error:
                os.close(descriptor)
                why = f"{place.point}: {why_not(error)}"
            except Unreadable as no:
                os.close(descriptor)
                why = no.why
            else:
                return system
        raise Unreadable(source, why)


class _FileSystem:
    """An open mount point, and how handles are written there."""

    def __init__(self, descriptor: int, device: Device, kind: str) -> None:
        self.descriptor = descriptor
        status = os.fstat(descriptor)
        if (os.major(status.st_dev), os.minor(status.st_dev)) != device:
            raise Unreadable(SOURCE, "every mount point of it is hidden under another mount")
        given = ctypes.create_string_buffer(_HEAD.pack(_MOST_BYTES, 0), _HEAD.size + _MOST_BYTES)
        mount_id = ctypes.c_int()
        if _libc.name_to_handle_at(descriptor, b"", given, ctypes.byref(mount_id), _EMPTY_PATH) < 0:
            raise OSError(ctypes.get_errno(), "name_to_handle_at")
        size, self._type = _HEAD.unpack_from(given)
        format_known = _FORMATS.get((self._type, size))
        # Proof that the format is right: the inode number of the mount point, which we know, is in its place.
        if format_known is None or format_known.unpack_from(given, _HEAD.size)[0] != status.st_ino:
            raise Unreadable(SOURCE, f"the handles of {kind} are of an unknown kind ({self._type:#x}, {size} bytes)")
        self._format = format_known

    def handle(self, inode: int, generation: int) -> bytes:
        return _HEAD.pack(self._format.size, self._type) + self._format.pack(inode, generation)

    def open(self, handle: bytes, flags: int) -> int:
        opened: int = _libc.open_by_handle_at(self.descriptor, handle, flags | os.O_CLOEXEC)
        if opened < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        return opened


# 27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
# 25 20 0:22 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw
def mounts() -> dict[Device, list[Mount]]:
    """The mounts of each device: those of the whole file system first, and of these the latest first."""
    found: dict[Device, list[Mount]] = {}
    for line in reversed(Host().read(MOUNTINFO).split("\n")):
        before, _, after = line.partition(" - ")
        numbers, root, point = [*before.split(" "), "", "", "", "", ""][2:5]
        major, _, minor = numbers.partition(":")
        if major.isdecimal() and minor.isdecimal():
            plain = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
            mount = Mount(device=(int(major), int(minor)), whole=root == "/", point=plain, kind=after.partition(" ")[0])
            found.setdefault(mount.device, []).append(mount)
    return {device: sorted(places, key=lambda place: not place.whole) for device, places in found.items()}


def how_to_unlink(pin: Pin, reachable: dict[Device, list[Mount]]) -> str:
    """A file in tmpfs as a path, as far as known, and what would free its pages."""
    points = [place.point for place in reachable.get(pin.device, [])]
    if not points:
        return f"{pin.where}: not mounted here (memfd, System V, or another mount namespace): stop its process"
    if pin.deleted:
        return f"{points[0]}: {pin.where}: stop the process that has it open or mapped"
    for point in points:
        for place in (f"{point}/{pin.name}", f"{point}/{pin.directory}/{pin.name}"):
            try:
                status = os.lstat(place)
            except (OSError, ValueError):
                continue
            if (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino) == (*pin.device, pin.inode):
                return f"{place}: remove or truncate it"
    return f"{points[0]}/…/{pin.where}: remove or truncate it"


def why_not(error: OSError) -> str:
    return _WHY.get(error.errno or 0, os.strerror(error.errno or 0).lower())
