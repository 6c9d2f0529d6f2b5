"""What the walk found about each memory cgroup, decoded from the records the kernel filled in."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.memcg_layout import RECORD
from zombiescope.kernel.memcg_offsets import Offsets

_Numbers = npt.NDArray[np.int64]
_Columns = dict[str, npt.NDArray[Any]]

_FILE_WORDS = ("file_name", "file_directory")  # long, and mostly the same: read where needed

_MOUNTS = ("/proc/1/mountinfo", "/proc/self/mountinfo")  # as the node names them; the first, unless it is hidden
# A live css counts its references per CPU; the number in one place is then only a bias, 2^63 on 64-bit machines.
_MOST_REFERENCES = 1 << 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One page that pins a dying cgroup. There may be others, of other files: release this one and walk again.

    Read without locks: a page that is just being moved may, rarely, be given for the wrong cgroup.
    """

    kind: str  # "page cache", "shmem" or "anonymous memory"
    mapped: int  # times mapped in page tables: not 0 means a process uses it now
    device: tuple[int, int]  # major and minor, as in mountinfo; (0, 0) for anonymous memory
    inode: int
    generation: int  # with the inode, the handle open_by_handle_at(2) takes on most file systems
    deleted: bool  # deleted, but still open or mapped somewhere
    directory: str  # the last one only, or the mount point of a file at the top of its file system
    name: str  # "" if the kernel has forgotten it: the file is then known by its inode only

    @property
    def where(self) -> str:
        """The file as "logs/x.log"; by number if it has no name; "" for anonymous memory."""
        if self.kind == "anonymous memory":
            return ""
        if not self.name:
            return f"inode {self.inode} on {self.device[0]}:{self.device[1]}" if self.inode else ""
        place = f"{self.directory.strip('/')}/{self.name}" if self.directory else self.name
        return f"{place} (deleted)" if self.deleted else place


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCgroup:
    """One memory cgroup, live or dying. Names are the kernel's bytes, so any but NUL and "/" may be in them.

    Counters of usage (memory, swap, kmem, sockets) include the children, those of the LRU lists do not. None: this
    kernel keeps no such counter.
    """

    serial: int  # unique since boot, growing
    parent_serial: int | None
    css_id: int
    online: bool
    dying: bool
    references: int | None  # None while alive
    inode: int  # of its directory, while it had one; the cgroup id on version 2
    level: int
    name: str
    path: str
    children: int  # dying and live
    memory_pages: int
    swap_pages: int | None
    kmem_pages: int | None
    socket_pages: int | None
    anon_pages: int  # on the LRU lists of swap-backed memory: anonymous, shmem and tmpfs
    file_pages: int
    unevictable_pages: int
    pin: Pin | None  # of dying cgroups only

    @property
    def dead(self) -> bool:
        """Removed, or being removed: it has no directory any more."""
        return self.dying

    @property
    def pinned_by(self) -> str:
        """What pins it, as far as one walk shows: a page first, since that can be released. Live: "".

        "unknown" is often a page touched a moment ago: it waits in its core's batch before it gets on a list.
        """
        if not self.dead:
            return ""
        if self.pin is not None:
            return f"{self.pin.kind}: {self.pin.where}" if self.pin.where else self.pin.kind
        # Since bf4f059954dc (v5.9) slab is moved to the parent, so a count of it may only be a remnant: checked last.
        witnesses = (
            (self.unevictable_pages, "locked memory"),
            (self.swap_pages, "swap"),
            (self.children, "its children"),
            (self.socket_pages, "sockets"),
            (self.kmem_pages, "slab/kernel memory"),
        )
        return next((words for pages, words in witnesses if pages), "unknown")


def decode(raw: bytes | bytearray, offsets: Offsets, *, version: int) -> list[MemoryCgroup]:
    """The cgroups of a walk, parents first. One met twice is given as last seen."""
    met = np.frombuffer(raw, dtype=RECORD)
    # Parents are older than their children, so in the order of serials every path can be built on its parent's.
    serials, last = np.unique(met["serial"][::-1], return_index=True)
    order = len(met) - 1 - last
    # Column by column: sorting whole records would take their memory a second time.
    records = {name: met[name][order] for name in RECORD.names or () if name not in _FILE_WORDS}
    flags, lru = records["flags"], np.maximum(records["lru"], 0)
    dying = (flags & offsets.css_dying) != 0
    swap, kmem, sockets = _counters(records, version)
    numbers, parents = serials.tolist(), records["parent"].tolist()
    children, names = Counter(parents), [_text(name) for name in records["name"].tolist()]
    paths: dict[int, str] = {0: ""}
    for serial, parent, name in zip(numbers, parents, names, strict=True):
        paths[serial] = f"{paths.get(parent, '?')}/{name}" if parent else ""
    columns: dict[str, list[Any]] = {
        "serial": numbers,
        "parent_serial": [parent or None for parent in parents],
        "css_id": records["css_id"].tolist(),
        "online": ((flags & offsets.css_online) != 0).tolist(),
        "dying": dying.tolist(),
        "references": _or_none(np.where(dying & (records["references"] < _MOST_REFERENCES), records["references"], -1)),
        "inode": records["inode"].tolist(),
        "level": records["level"].tolist(),
        "name": names,
        "path": [paths[serial] or "/" for serial in numbers],
        "children": [children[serial] for serial in numbers],
        "memory_pages": np.maximum(records["memory"], 0).tolist(),
        "swap_pages": _or_none(swap),
        "kmem_pages": _or_none(kmem),
        "socket_pages": _or_none(sockets),
        "anon_pages": (lru[:, 0] + lru[:, 1]).tolist(),
        "file_pages": (lru[:, 2] + lru[:, 3]).tolist(),
        "unevictable_pages": lru[:, 4].tolist(),
        "pin": _pins(records, met, order, offsets),
    }
    return [MemoryCgroup(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


# Version 1 counts memory and swap together, or nothing with swapaccount=0. Version 2 charges neither kernel memory nor
# sockets to counters of their own: a zero there is not a measurement.
def _counters(records: _Columns, version: int) -> tuple[_Numbers, _Numbers, _Numbers]:
    memory, memsw, swap = records["memory"], records["memsw"], records["swap"]
    kmem, sockets = records["kmem"], records["tcpmem"]
    if version == 1:
        return np.where((memsw > 0) | (memory == 0), np.maximum(memsw - memory, 0), -1), kmem, sockets
    return swap, np.where(kmem > 0, kmem, -1), np.where(sockets > 0, sockets, -1)


def _or_none(numbers: _Numbers) -> list[int | None]:
    return [number if number >= 0 else None for number in numbers.tolist()]


# There may be thousands of dying cgroups with pages of the same few files: equal pins are one object.
def _pins(records: _Columns, met: npt.NDArray[np.void], order: _Numbers, offsets: Offsets) -> list[Pin | None]:
    pins: list[Pin | None] = [None] * len(order)
    known: dict[tuple[int, ...], Pin] = {}
    mounts = cache(_mount_points)
    found = np.flatnonzero(records["page"] == 1)
    swap_backed = (records["page_flags"] >> np.uint64(offsets.swap_backed)) & np.uint64(1)
    facts = ("mapping_bits", "mapcount", "file_device", "file_inode", "file_generation", "file_links")
    rows = zip(swap_backed[found].tolist(), *(records[name][found].tolist() for name in facts), strict=True)
    for at, row in zip(found.tolist(), rows, strict=True):
        if row not in known:
            shmem, anonymous, mapcount, device, inode, generation, links = row
            numbers = (device >> 20, device & 0xFFFFF)
            name, directory = (_text(met[words][order[at]]) for words in _FILE_WORDS)
            known[row] = Pin(
                kind="anonymous memory" if anonymous else "shmem" if shmem else "page cache",
                mapped=max(mapcount + 1, 0),
                device=numbers,
                inode=inode,
                generation=generation if inode else 0,
                deleted=bool(inode) and links == 0,
                directory=mounts().get(numbers, directory) if directory == "/" else directory,
                name=name,
            )
        pins[at] = known[row]
    return pins


# The field is as long as the longest name; after the NUL is what an earlier, longer name left there.
def _text(field: bytes) -> str:
    return os.fsdecode(field.partition(b"\0")[0])


# 25 20 0:22 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw
def _mount_points() -> dict[tuple[int, int], str]:
    lines: list[bytes] = []  # without it a file at the top of its file system is given without a directory
    for table in _MOUNTS:
        with suppress(OSError), open(table, "rb") as file:
            lines = file.read().splitlines()
            break
    points: dict[tuple[int, int], str] = {}
    for line in lines:
        device, root, point = [*line.split(b" "), b"", b"", b"", b"", b""][2:5]
        major, _, minor = device.partition(b":")
        if root == b"/" and major.isdigit() and minor.isdigit():
            plain = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 0xFF]), point)
            points.setdefault((int(major), int(minor)), os.fsdecode(plain))
    return points
