"""Functions of mapped files: each file is opened once, safely, as the process that mapped it sees it.

A file is known by its device, inode, size and time of change; a file of the host that root alone can write also by its
build-id, which anybody can write into a file of his own. So two containers with the same path and different files get
different names, and nobody names the functions of others. What cannot be identified gets no names: module+offset is
better than the wrong function.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.aside import Aside, Task
from zombiescope.naming.clean import clean
from zombiescope.naming.contents import contents, host_file, readable
from zombiescope.naming.debug_files import with_debug_file
from zombiescope.naming.elf import Elf
from zombiescope.naming.file_systems import MountTables, mount_namespace
from zombiescope.naming.mapped import Mapped
from zombiescope.naming.regions import Region
from zombiescope.naming.vdso import vdso
from zombiescope.processes.opening import Identity

# A node runs some hundred programs with some hundred libraries; a container image each makes them more.
MOST_FILES = 1024
MOST_MEMORY = 64 << 20  # symbols of libc take 0.1 MB, of a large program (node, a compiler) 12 to 25 MB
MOST_NAMES = 1 << 17  # a profile of a busy node has 20,000 distinct addresses
AT_A_TIME = 64  # files opened for one read of the samples: 0.15 ms each, if they cannot be used


# Build-id, device, inode, path; and the process, where others may have had another file with that inode.
_Mapped = tuple[bytes, tuple[int, int], int, str, int]


@dataclass(slots=True, eq=False)
class File:
    """What gives names to the addresses of one file, or says why it has none."""

    elf: Elf | None = None
    why: str = ""
    task: Task[_Loaded] | None = None  # under way
    dropped: bool = False
    names: dict[int, str | None] = field(default_factory=dict)


class _Loaded(NamedTuple):
    identity: Identity
    elf: Elf | None  # None: it is one that is known already
    roots: bool = False  # root alone can write it, on the host
    ours: bool = True  # the process sees what the host sees


class Files:
    """All files of all processes; the least recently used are forgotten."""

    def __init__(self, aside: Aside, tables: MountTables) -> None:
        self._aside, self._tables = aside, tables
        self._held: OrderedDict[File, None] = OrderedDict()
        self._by_build_id: dict[str, File] = {}
        self._by_identity: dict[Identity, File] = {}
        self._by_mapping: dict[_Mapped, File] = {}  # as the kernel said when it was mapped
        self._memory = self._names = self._opened = 0

    def __len__(self) -> int:
        return len(self._held)

    def begin(self) -> None:
        """A new read of the samples: some files may be opened again."""
        self._opened = 0
        if self._names >= MOST_NAMES:
            for file in self._held:
                file.names.clear()
            self._names = 0

    def known(self, pid: int, region: Region) -> Mapping[int, str | None]:
        """What was looked up in the file of a region, by offset."""
        if region.kind not in ("file", "vdso"):
            return {}
        file = region.file
        if file is None or file.dropped:
            file = self._of(pid, region)
        return file.names if file is not None else {}

    def look_up(self, asked: Iterable[tuple[int, Region | None, int]]) -> None:
        """Have the names of many (pid, region, address) at hand: all of one file are found by one search."""
        wanted: dict[File, set[int]] = {}
        tried: set[int] = set()
        for pid, region, address in asked:
            if region is None or region.kind not in ("file", "vdso"):
                continue
            file = region.file
            if file is None or file.dropped or file.task is not None:
                if id(region) in tried:
                    continue
                tried.add(id(region))
                file = self._of(pid, region)
            if file is not None and file.elf is not None:
                offset = address - region.start + region.offset
                if offset not in file.names:
                    wanted.setdefault(file, set()).add(offset)
        for file, offsets in wanted.items():
            if file.elf is None:  # forgotten, as another one was read
                continue
            found = file.elf.names(np.fromiter(offsets, np.uint64, len(offsets)))
            file.names.update(zip(offsets, (it if it is None else clean(it) for it in found), strict=True))
            self._names += len(offsets)
            self._held.move_to_end(file)

    def name(self, region: Region, address: int) -> tuple[str | None, bool]:
        """The function at an address of a file that was looked up, None for none; and whether that is final."""
        file = region.file
        if file is None or file.dropped or file.task is not None:
            return None, False
        return file.names.get(address - region.start + region.offset), True

    def _of(self, pid: int, region: Region) -> File | None:
        """The file of a region; None if that is not known yet."""
        # All is asked at one time, and while a file is mapped no other one gets its inode. The vdso has a size instead.
        mapped = (region.build_id, region.device, region.inode or region.start - region.end, region.path)
        known = self._by_mapping.get((*mapped, 0)) or self._by_mapping.get((*mapped, pid))
        if known is None and region.build_id:
            known = self._by_build_id.get(_key(region.build_id.hex()))
            if known is not None and mount_namespace(str(pid)) not in ("", mount_namespace("self")):
                known = None  # a file of a container, which may only say that it is the same
        if known is not None and known.elf is None and not known.dropped and os.path.exists(f"/proc/{pid}"):
            known = None  # it was not there for one that is gone; this one may have it in a root of its own
        if known is None or known.dropped:
            task = region.file.task if region.file is not None else None
            if task is None:
                if self._opened >= AT_A_TIME:
                    return None
                self._opened += 1
                task = self._aside.run(lambda: self._load(pid, region), pid, region.device)
                if task is None:
                    return None
            if not task.done:
                region.file = File(task=task)
                return None
            known, loaded = self._taken(task)
            gone = known.elf is None and not os.path.exists(f"/proc/{pid}")
            if gone or (known.elf is not None and (region.inode or region.build_id or region.kind == "vdso")):
                # What is deleted in one container may leave its inode, on a disk of the host, to a file of another.
                shared = loaded is None or loaded.ours or not region.device[0]
                self._by_mapping[*mapped, 0 if shared else pid] = known
        region.file = known
        return known

    def _taken(self, task: Task[_Loaded]) -> tuple[File, _Loaded | None]:
        try:
            loaded = task.result()
        except (Unreadable, Unparsable) as error:
            return File(why=error.why), None
        except (OSError, ValueError, MemoryError) as error:
            return File(why=str(error)), None
        known = self._by_identity.get(loaded.identity)
        if known is not None and known.dropped:
            known = None
        if loaded.elf is None:  # one that is known; or was, and is forgotten by now
            return known or File(dropped=True), loaded
        if known is None and loaded.roots and loaded.elf.build_id:
            known = self._by_build_id.get(_key(loaded.elf.build_id))
        if known is None or known.dropped:
            known = File(elf=loaded.elf, why="" if loaded.elf else "has no function names (stripped)")
            self._held[known] = None
            self._memory += loaded.elf.memory
        self._by_identity[loaded.identity] = known
        if loaded.roots and known.elf is not None and known.elf.build_id:
            self._by_build_id[_key(known.elf.build_id)] = known
        self._forget()
        return known, loaded

    def _forget(self) -> None:
        while len(self._held) > 1 and (len(self._held) > MOST_FILES or self._memory > MOST_MEMORY):
            oldest, _ = self._held.popitem(last=False)
            self._memory -= oldest.elf.memory if oldest.elf else 0
            self._names -= len(oldest.names)
            oldest.elf, oldest.dropped = None, True
            oldest.names.clear()
        if max(len(self._by_identity), len(self._by_mapping)) > 4 * MOST_FILES or len(self._by_build_id) > len(
            self._held
        ):
            self._by_identity = {key: file for key, file in self._by_identity.items() if not file.dropped}
            self._by_build_id = {key: file for key, file in self._by_build_id.items() if not file.dropped}
            self._by_mapping = {key: file for key, file in self._by_mapping.items() if not file.dropped}
            if max(len(self._by_identity), len(self._by_mapping)) > 4 * MOST_FILES:
                self._by_identity.clear()
                self._by_mapping.clear()

    # In a thread of its own, so that a disk or a mount that does not answer stops nothing else.
    def _load(self, pid: int, region: Region) -> _Loaded:
        if region.kind == "vdso":
            image = vdso()
            if len(image) != region.end - region.start:
                raise Unreadable("[vdso]", "of another word size than ours")
            return _Loaded(Identity((0, 0), 0, len(image), 0, 0), Elf.parse(image, "[vdso]"))
        with readable(region.path), ExitStack() as stack:
            mapped = stack.enter_context(Mapped(pid, region, self._tables))
            descriptor, which = mapped.found()
            known = self._by_identity.get(which)
            if known is not None and known.elf is not None:
                _check(region, known.elf.build_id)
                return _Loaded(which, None, mapped.is_roots(descriptor, which), mapped.ours)
            elf = Elf.parse(stack.enter_context(closing(contents(descriptor, which.size, region.path))), region.path)
            _check(region, elf.build_id)
            named = with_debug_file(elf, region.path, mapped.opened, host_file)
            # Who may have written its debug file is not known.
            return _Loaded(which, named, named is elf and mapped.is_roots(descriptor, which), mapped.ours)


# The kernel reports 20 bytes: longer build-ids are cut, shorter ones padded with zeros.
def _key(build_id: str) -> str:
    return build_id[:40].rstrip("0")


# Names from another build of the file would be wrong without any sign of it: better none.
def _check(region: Region, build_id: str) -> None:
    if region.build_id and _key(build_id) != _key(region.build_id.hex()):
        raise Unreadable(region.path, f"another build: {build_id or 'no build-id'}, not {region.build_id.hex()}")
