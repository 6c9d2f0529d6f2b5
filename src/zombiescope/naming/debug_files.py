"""The symbols of a stripped program, from the debug file that its distribution keeps beside it or in /usr/lib/debug.

Found by the build-id, or by the name that the program holds (.gnu_debuglink), as gdb does; in the root of the process,
so that a container is named by its own packages. By the build-id also on the host: what has the same build-id is the
same build, wherever it is. A file that is not of this build, by build-id or checksum, is not used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import closing

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.naming.contents import Contents
from zombiescope.naming.elf import Elf

FOLDER = "/usr/lib/debug"
LARGEST_SUMMED = 512 << 20  # bytes: half a second; a debug file that is larger has a build-id
_PIECE = 1 << 20

Door = Callable[[str], Contents]  # opens a path if it is a regular file; else Unreadable


def with_debug_file(elf: Elf, path: str, theirs: Door, ours: Door) -> Elf:
    """The same program with the names from its debug file; without, if it has its own or there is none."""
    if not elf.stripped:
        return elf
    for door, where in _places(elf, path, theirs, ours):
        try:
            with closing(door(where)) as file:
                debug = Elf.parse(file, where)
                if not debug.stripped and _same_build(elf, debug, file):
                    return elf.named_by(debug)
        except (Unreadable, Unparsable):
            continue
    return elf


def _places(elf: Elf, path: str, theirs: Door, ours: Door) -> Iterator[tuple[Door, str]]:
    by_id = f"{FOLDER}/.build-id/{elf.build_id[:2]}/{elf.build_id[2:]}.debug" if len(elf.build_id) > 2 else ""
    if by_id:
        yield theirs, by_id
    link, folder = elf.debug_link, path.rpartition("/")[0]
    if link is not None and "/" not in link.name and link.name not in ("", ".", ".."):
        for beside in (folder, f"{folder}/.debug", f"{FOLDER}{folder}"):
            yield theirs, f"{beside}/{link.name}"
    if by_id:
        yield ours, by_id


def _same_build(elf: Elf, debug: Elf, file: Contents) -> bool:
    if elf.build_id and debug.build_id:
        return elf.build_id == debug.build_id
    return elf.debug_link is not None and file.size <= LARGEST_SUMMED and _sum(file) == elf.debug_link.checksum


def _sum(file: Contents) -> int:
    checksum = 0
    for at in range(0, file.size, _PIECE):
        checksum = zlib.crc32(file.read(at, _PIECE), checksum)
    return checksum
