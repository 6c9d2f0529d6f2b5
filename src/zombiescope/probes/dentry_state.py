"""/proc/sys/fs/dentry-state and inode-nr: how many dentries and inodes the kernel caches, in use or not.

Overhead: two reads of 40 bytes, 30 µs each; the kernel adds up one counter a core.
Kernel: Documentation/admin-guide/sysctl/fs.rst. Negative dentries (names that were looked up and do not exist) are
    counted since af0c9af1b3f6 ("fs/dcache: Track & report number of negative dentries", in v5.0); before, the field is
    0, so 0 is reported as not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import Samples, reading, text_of, unpacked
from zombiescope.kernel.text import count

EVERY = 10.0
GIVES = ("dentries", "dentries_unused", "dentries_negative", "inodes", "inodes_unused")
FILES = DENTRIES, INODES = "/proc/sys/fs/dentry-state", "/proc/sys/fs/inode-nr"


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, content in samples:
        yield from _sample(at, *unpacked(content, FILES))


read = reading(FILES, readings)


def _sample(at: float, dentries: bytes | Unreadable, inodes: bytes | Unreadable) -> Iterator[Reading | Blind]:
    text = text_of(dentries)
    known, unused, negative = parse(text, DENTRIES, (0, 1, 4))
    for what, value in zip(GIVES, (known, unused), strict=False):
        yield Reading(what=what, subject="node", value=value, at=at, source=DENTRIES, text=text.strip())
    if negative:
        yield Reading(what=GIVES[2], subject="node", value=negative, at=at, source=DENTRIES, text=text.strip())
    else:
        yield Blind(what=GIVES[2], source=DENTRIES, why="this kernel does not count negative dentries")
    if isinstance(inodes, Unreadable):
        yield from (Blind(what=what, source=INODES, why=inodes.why) for what in GIVES[3:])
        return
    text = text_of(inodes)
    for what, value in zip(GIVES[3:], parse(text, INODES, (0, 1)), strict=True):
        yield Reading(what=what, subject="node", value=value, at=at, source=INODES, text=text.strip())


# 161580	151531	45	0	28955	0
# 132387	0
def parse(text: str, source: str, columns: tuple[int, ...]) -> list[int]:
    fields = text.split()
    try:
        return [count(fields[column]) for column in columns]
    except (ValueError, IndexError):
        raise Unparsable(source, 1, text) from None
