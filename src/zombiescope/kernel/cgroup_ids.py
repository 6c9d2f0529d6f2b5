"""Find a cgroup's path by its id: samples carry the id, a person wants the path.

A cgroup's id is that of its kernfs node, and kernfs file handles hold just that id: open_by_handle_at finds the folder
at once, without walking the tree. A removed cgroup is not found.
Kernel: PERF_SAMPLE_CGROUP gives the id in the hierarchy of perf_event (6546b19f95ac, v5.7): version 2, unless
    perf_event is mounted as version 1. Needs CAP_DAC_READ_SEARCH and CONFIG_FHANDLE; one id costs some 15 µs.
"""

from __future__ import annotations

import ctypes
import os
import struct

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts

# struct file_handle with FILEID_KERNFS of include/linux/exportfs.h: bytes that follow, type, the id.
_HANDLE = struct.Struct("=IiQ")
_FILEID_KERNFS = 0xFE
_libc = ctypes.CDLL(None, use_errno=True)


class CgroupIds:
    """Finds cgroups of one hierarchy by id; a context manager."""

    def __init__(self, host: Host, *, unified: bool = False) -> None:
        """Of perf_event's hierarchy, or of version 2 (`unified`) even where perf_event is in another."""
        mounts = cgroup_mounts(host)
        found = [it for it in mounts if not unified and "perf_event" in it.controllers]
        found = found or [it for it in mounts if it.version == 2]
        if not found or not host.live:
            raise Unreadable(MOUNTINFO, "the cgroup hierarchy that its ids refer to is not mounted here")
        self.mount = found[0].path
        # The mount may show only a part of the hierarchy, or more than our cgroup namespace ("/..").
        self._above = os.path.normpath(found[0].root).rstrip("/")
        try:
            self._folder = os.open(host.real(self.mount), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._top = os.readlink(f"/proc/self/fd/{self._folder}")  # as paths of folders in it begin
        except OSError as error:
            raise Unreadable(self.mount, (error.strerror or "").lower()) from error
        try:
            if self.path(os.fstat(self._folder).st_ino) is None:
                raise Unreadable(self.mount, "cgroups cannot be found by id: needs CAP_DAC_READ_SEARCH")
        except Unreadable:
            os.close(self._folder)
            raise

    def path(self, number: int) -> str | None:
        """The path in the hierarchy ("/system.slice/ssh.service"); None for one that is gone."""
        handle = ctypes.create_string_buffer(_HANDLE.pack(_HANDLE.size - 8, _FILEID_KERNFS, number), _HANDLE.size)
        found = _libc.open_by_handle_at(self._folder, handle, os.O_PATH | os.O_CLOEXEC)
        if found < 0:
            return None
        try:
            path = os.readlink(f"/proc/self/fd/{found}")
        except OSError:
            return None
        finally:
            os.close(found)
        # A folder outside this mount namespace has a path from another root.
        inside = path == self._top or path.startswith(f"{self._top}/")
        return self._above + path.removeprefix(self._top) or "/" if inside else None

    def __enter__(self) -> CgroupIds:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
