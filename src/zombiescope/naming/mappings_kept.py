"""Mappings of processes that live on, as plain values, to go on with in another process of ours."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.naming.mappings import Mappings, _Epoch, _Space
from zombiescope.naming.regions import Region

MOST_PROCESSES, MOST_REGIONS = 1024, 40_000
Row = tuple[int, int, int, str, str, int, int, int, int]
Kept = tuple[
    int, int, int, tuple[Row, ...]
]  # pid, since when it runs its program, when its maps were read, its regions


def kept(mappings: Mappings) -> tuple[Kept, ...]:
    """Those that were used last, as far as there is room: each with the program that it runs.

    None gets more than is left for all others: one that maps tens of thousands of files costs only itself.
    """
    found: list[Kept] = []
    regions = 0
    for pid in reversed(mappings._epochs):
        if pid in mappings._ended:
            continue
        epoch = mappings._epochs[pid][-1]
        rows = tuple(_row(start, end, region) for start, end, region in epoch.space.pieces())
        if len(found) >= MOST_PROCESSES:
            break
        if rows and len(rows) <= MOST_REGIONS - regions - len(rows):
            regions += len(rows)
            found.append((pid, epoch.since_ns, epoch.space.taken_ns, rows))
    return tuple(reversed(found))


def restore(mappings: Mappings, kept: Iterable[Kept]) -> None:
    for pid, since_ns, taken_ns, rows in kept:
        space = _Space()
        for start, end, offset, path, build_id, mapped_ns, major, minor, inode in rows:
            if start < end:
                space.add(Region(start, end, offset, path, bytes.fromhex(build_id), mapped_ns, (major, minor), inode))
        space.taken_ns = taken_ns
        mappings.begin(pid, _Epoch(since_ns, space))


# A piece of a region begins later in the file than the region does.
def _row(start: int, end: int, region: Region) -> Row:
    path = f"{region.path} (deleted)" if region.deleted else region.path
    about = (region.since_ns, *region.device, region.inode)
    return (start, end, region.at(start), path, region.build_id.hex(), *about)
