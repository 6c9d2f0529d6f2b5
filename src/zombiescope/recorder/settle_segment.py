"""The settle child: reads the heads of finished segments, writes their files, removes the heads, exits.

    python -m zombiescope.recorder.settle FOLDER SEGMENT [SEGMENT…]

Whoever starts it lets it run only when nobody else wants the core or the disk. Its memory goes with it. If it is
killed, the head is still there, and is what readers take; the next child does it again.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO

from zombiescope.core import Host, UserError, harmless
from zombiescope.naming.kernel_names import KernelOnce
from zombiescope.processes.opening import inside, reading
from zombiescope.recorder import carry as carries
from zombiescope.recorder.carry import Carry
from zombiescope.recorder.folder import create
from zombiescope.recorder.kernel_table import saved
from zombiescope.recorder.layout import CARRY, HEAD_FILE, META, is_segment
from zombiescope.recorder.meta import read_meta
from zombiescope.recorder.settle import Settled, settled
from zombiescope.recorder.settling import NO_MEMORY
from zombiescope.recorder.stranger import roots_alone

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BUFFER = 1 << 18  # bytes: a record of a ring has some thousand
_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of malloc.h


def main(argv: Sequence[str]) -> int:
    """0: all that could be settled is; else something could not, and is still there as it was."""
    if len(argv) < 2 or not all(map(is_segment, argv[1:])):
        print("usage: settle FOLDER SEGMENT [SEGMENT…]", file=sys.stderr)
        return 2
    gc.disable()  # nothing of a head is in a cycle, and to look for some takes 5 % of the time
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # read when it is loaded: its own allocator keeps its memory
    with suppress(AttributeError):  # each thread that reads a file would keep memory of its own
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    failed = 0
    try:
        meta = read_meta(os.path.join(argv[0], META))
        folder = os.open(argv[0], _FOLDER)
    except (OSError, UserError) as error:
        print(harmless(str(error)), file=sys.stderr)
        return 1
    try:
        kernel = KernelOnce(partial(saved, argv[0]))
        for segment in argv[1:]:
            try:
                settle_segment(folder, segment, meta, Host(), kernel)
            except MemoryError:
                failed = NO_MEMORY
            except (OSError, UserError) as error:
                print(harmless(f"{segment}: {error}"), file=sys.stderr)
                failed = failed or 1
    finally:
        os.close(folder)
    return failed


def settle_finished(path: str, host: Host | None) -> None:
    """Every head of a recording that is not being written; what cannot be settled stays as it is. Or MemoryError."""
    with suppress(OSError, UserError):
        meta = read_meta(os.path.join(path, META))
        folder = os.open(path, _FOLDER)
        try:
            kernel = KernelOnce(partial(saved, path))
            for segment in sorted(filter(is_segment, os.listdir(folder)))[:-1]:
                with suppress(OSError, UserError):
                    settle_segment(folder, segment, meta, host, kernel)
        finally:
            os.close(folder)


def settle_segment(
    folder: int, segment: str, meta: Mapping[str, Any], host: Host | None, kernel: KernelOnce | None = None
) -> bool:
    """Settle one segment of an open folder; False if there is no head, or another child is at it."""
    handle = os.open(segment, _FOLDER, dir_fd=folder)
    try:
        with _open_regular(HEAD_FILE, handle) as head:
            try:
                fcntl.flock(head, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            _keep()
            if not all(roots_alone(os.fstat(it)) for it in (folder, handle, head.fileno())):
                host = None  # somebody else had put it there before
            found = settled(head, meta, host=host, carry=read_carry(folder), kernel=kernel)
            write_segment(handle, found)
            _write_carry(folder, found.carry)
            os.unlink(HEAD_FILE, dir_fd=handle)
            return True
    except FileNotFoundError:
        return False
    finally:
        os.close(handle)


def write_segment(folder: int, found: Settled) -> None:
    """The files of a segment; all of them are on disk when this returns."""
    found.stacks.let_go()
    _give_back()
    # Not before: the 30 MB of Arrow, and what gave names, are not needed at the same time.
    import pyarrow as pa

    from zombiescope.recorder.segment import write_tables

    try:
        write_tables(folder, found.rows.taken, found.stacks.samples)
    except MemoryError:  # one of Arrow's own is both
        raise
    except pa.ArrowException as error:
        raise UserError(str(error)) from error


def read_carry(folder: int) -> Carry:
    try:
        with _open_regular(CARRY, folder) as file:
            if not roots_alone(os.fstat(file.fileno())):
                return Carry()
            return carries.loaded(file.read(carries.MOST_BYTES + 1))
    except OSError:
        return Carry()


def _write_carry(folder: int, carry: Carry) -> None:
    """It only saves work: if it cannot be written, the next head does without."""
    content, part = carry.saved(), f"{CARRY}.part"
    with suppress(OSError):
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        if len(content) > carries.MOST_BYTES:
            return
        with open(create(part, folder), "wb") as file:
            file.write(content)
        os.replace(part, CARRY, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _open_regular(name: str, folder: int) -> Iterator[BinaryIO]:
    """A regular file in an open folder; a link is not followed, a FIFO or a device not opened."""
    with inside(folder, name, links=False) as place, os.fdopen(reading(place), "rb", _BUFFER) as file:
        yield file


def _keep() -> None:
    """What is freed: the same sizes come again with every batch, and a page that is new costs as much as to fill it."""
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 4 << 20)
        libc.mallopt(_TRIM_THRESHOLD, 32 << 20)


def _give_back() -> None:
    """What was freed, and from now on each large piece when it is freed: malloc else keeps more with each one."""
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 1 << 17)
        libc.malloc_trim(0)
