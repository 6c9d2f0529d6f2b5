"""Find the file that a process has mapped, as that process sees it; never a file of the same name elsewhere.

Through the mapping itself if we may (CAP_SYS_ADMIN, or CAP_CHECKPOINT_RESTORE since v5.9): that is the file, also if it
was deleted or replaced. Else by its path in the root of the process, if it is still the same file. Of a process that is
gone, or of our own mount namespace, also by its path in our root, on the same condition.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack

from zombiescope.core.errors import Unreadable
from zombiescope.naming.contents import OnDisk, contents, readable
from zombiescope.naming.file_systems import MountTables, mount_namespace, own_root
from zombiescope.naming.regions import Region
from zombiescope.processes.opening import Identity, identity, inside, place


class Mapped:
    """The search for one file; what it found is closed at the end."""

    def __init__(self, pid: int, region: Region, tables: MountTables) -> None:
        self._pid, self._region = pid, region
        self._open = ExitStack()
        theirs = mount_namespace(str(pid))
        self._gone = not theirs
        self.ours = theirs in ("", mount_namespace("self"))  # it sees, or saw, what we see
        self._mounts = tables.of("self" if self._gone else str(pid))

    def __enter__(self) -> Mapped:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def found(self) -> tuple[int, Identity]:
        """A descriptor that is not open for reading, and which file it is."""
        region, why = self._region, Unreadable(self._region.path, "no such file or directory")
        self._mounts.check_path(region.path)
        for search in (self._by_mapping, self._by_their_root, self._by_our_root):
            try:
                with readable(region.path):
                    descriptor = search()
                    if descriptor is None:
                        continue
                    which = identity(descriptor)
                self._mounts.check_file(region.path, descriptor, which.device)
                if search == self._by_mapping or self._same(which) or region.build_id:  # the build-id is checked later
                    return descriptor, which
                why = Unreadable(region.path, "replaced by another file")
            except Unreadable as error:
                why = error
        raise why

    def is_roots(self, descriptor: int, which: Identity) -> bool:
        """Whether it is a file of the host's own root that root alone can write; not one of a container's root user."""
        shared = os.fstat(descriptor).st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return self.ours and which.owner == 0 and not shared and which.device == own_root()

    def opened(self, path: str) -> OnDisk:
        """Another file of the process's root, if it is a regular one; to be closed. The caller checks whose it is."""
        if self._gone and not self.ours:
            raise Unreadable(path, "the process is gone")
        self._mounts.check_path(path)
        with (
            readable(path),
            place("/" if self._gone else f"/proc/{self._pid}/root") as root,
            inside(root, path, follow=True) as descriptor,
        ):
            which = identity(descriptor)
            self._mounts.check_file(path, descriptor, which.device)
            return contents(descriptor, which.size, path)

    # A mapping made since at the same address has another path, or is another file.
    def _by_mapping(self) -> int | None:
        link = f"/proc/{self._pid}/map_files/{self._region.start:x}-{self._region.end:x}"
        try:
            said = os.readlink(link)
        except OSError:  # not permitted, or not mapped any more
            return None
        descriptor = self._open.enter_context(place(link))
        if said.removesuffix(" (deleted)") == self._region.path or self._region.build_id:
            return descriptor
        return descriptor if self._same(identity(descriptor)) else None

    def _by_their_root(self) -> int | None:
        if self._gone or self._region.deleted:
            return None
        root = self._open.enter_context(place(f"/proc/{self._pid}/root"))
        return self._open.enter_context(inside(root, self._region.path))

    def _by_our_root(self) -> int | None:
        if not self.ours or self._region.deleted:
            return None
        root = self._open.enter_context(place("/"))
        return self._open.enter_context(inside(root, self._region.path))

    def _same(self, which: Identity) -> bool:
        return (which.device, which.inode) == (self._region.device, self._region.inode)
