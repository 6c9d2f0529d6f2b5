"""What a probe reads from fixed files: held open, fetched with one call each, parsed later and maybe elsewhere.

One file is fetched as its bytes. Several are packed into one content, each with its bytes or the reason why it could
not be read, so that they are parsed together as they were read together.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from zombiescope.core.errors import Unreadable
from zombiescope.core.host import CHUNK, MOST_BYTES, Host, why
from zombiescope.core.model import Blind, Reading

Samples = Sequence[tuple[float, bytes]]  # one or more of a source, in order: when, and what was fetched
Found = TypeVar("Found", bound=Reading | Blind)

# All of it comes at once (single_open() of fs/seq_file.c, proc_sys_read()): to ask for more costs up to 10 µs.
_AT_ONCE = ("/proc/stat", "/proc/loadavg", "/proc/meminfo", "/proc/softirqs", "/proc/uptime")
_AT_ONCE_BELOW = ("/proc/sys/", "/proc/pressure/")
_PART = struct.Struct("<?I")  # whether it was read, and how many bytes follow
_MOST_WHY = 1000  # characters of a reason


def reading(files: Sequence[str], readings: Callable[[Samples], Iterator[Found]]) -> Callable[[Host], Iterator[Found]]:
    """The `read(host)` of a probe that has FILES: fetched and parsed at once."""

    def read(host: Host) -> Iterator[Found]:
        at = host.now()
        if len(files) == 1:
            return readings([(at, host.read_bytes(files[0]))])
        return readings([(at, _packed([partial(host.read_bytes, path) for path in files]))])

    return read


def one_figure(what: str, source: str, parse: Callable[[str], float]) -> Callable[[Samples], Iterator[Reading]]:
    """The `readings(samples)` of a probe whose only file holds one figure of the node."""

    def readings(samples: Samples) -> Iterator[Reading]:
        for at, text in texts(samples):
            yield Reading(what=what, subject="node", value=parse(text), at=at, source=source, text=text.strip())

    return readings


def texts(samples: Samples) -> Iterator[tuple[float, str]]:
    """Samples of one file, as text."""
    for at, content in samples:
        yield at, content.decode("utf-8", "surrogateescape")


@contextmanager
def fetching(host: Host, files: Sequence[str]) -> Iterator[Callable[[], bytes]]:
    """Fetches all of `files` again and again, held open. One that is missing is looked for each time; Unreadable if it
    is the only one."""
    with ExitStack() as held:
        reads = [_held_open(host, path, held) for path in files]
        yield reads[0] if len(files) == 1 else lambda: _packed(reads)


def _held_open(host: Host, path: str, held: ExitStack) -> Callable[[], bytes]:
    """Reads a file of the live kernel, each time from its beginning; opened when it is first there."""
    handle, at_once = -1, path in _AT_ONCE or path.startswith(_AT_ONCE_BELOW)

    def read() -> bytes:
        nonlocal handle
        try:
            if handle < 0:
                handle = host.opened(path)
                held.callback(os.close, handle)
            part = os.pread(handle, CHUNK, 0)
            if at_once and len(part) < CHUNK:
                return part
            # A file of many records (/proc/slabinfo) is handed out a page at a time, however large the buffer is.
            whole = bytearray(part)
            while part:
                part = os.pread(handle, CHUNK, len(whole))
                whole += part
                if len(whole) > MOST_BYTES:
                    raise Unreadable(path, f"larger than {MOST_BYTES:,} bytes")
            return bytes(whole)
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error

    return read


def unpacked(content: bytes, files: Sequence[str]) -> list[bytes | Unreadable]:
    """What several files held, in their order."""
    found: list[bytes | Unreadable] = []
    place = 0
    for path in files:
        if place + _PART.size > len(content):
            raise Unreadable(path, "what was fetched of it is cut off")
        good, length = _PART.unpack_from(content, place)
        place += _PART.size
        part = content[place : place + length]
        place += length
        found.append(part if good else Unreadable(path, part.decode("utf-8", "replace")))
    return found


def text_of(part: bytes | Unreadable) -> str:
    """The text of one of several files; raises the reason where it could not be read."""
    if isinstance(part, Unreadable):
        raise part
    return part.decode("utf-8", "surrogateescape")


def _packed(reads: Sequence[Callable[[], bytes]]) -> bytes:
    parts = []
    for read in reads:
        try:
            content, good = read(), True
        except Unreadable as error:
            content, good = error.why[:_MOST_WHY].encode("utf-8", "replace"), False
        parts += [_PART.pack(good, len(content)), content]
    return b"".join(parts)
