"""Files of samples, recognised by their content."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import IO

from zombiescope.core import UserError
from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Samples

KNOWN = "not a format we read: perf.data, the text of `perf script`, folded stacks, pprof; gzipped or not"
PERF_DATA = (b"PERFILE2", b"PERFFILE", b"2ELIFREP")
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20
_BEGINNING = 64 << 10  # read to see what a file is
_LARGEST = 64 << 30  # bytes, unpacked: 12 hours of 96 cores at 49 Hz are 29 GB


class Opened:
    """A file of samples that can be read at any offset; a gzipped one is unpacked into a temporary file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            self._file: IO[bytes] = _regular(path)
            if self._file.read(len(_GZIP)) == _GZIP:
                self._file = self._unpacked()
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error

    def close(self) -> None:
        self._file.close()

    def read(self, at: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, at)
        except (OSError, OverflowError) as error:
            raise UserError(f"{self.path}: at byte {at}: {error}") from error

    def pieces(self) -> Iterator[bytes]:
        at = 0
        while piece := self.read(at, _BLOCK):
            yield piece
            at += len(piece)

    def _unpacked(self) -> IO[bytes]:
        """A temporary file without a name, gone when it is closed: the content may be larger than memory."""
        import gzip
        import tempfile

        size, unpacked = 0, tempfile.TemporaryFile()  # noqa: SIM115  (closed with us)
        self._file.seek(0)
        try:
            with self._file, gzip.GzipFile(fileobj=self._file) as packed:
                while (raw := packed.read1(_BLOCK)) and size <= _LARGEST:
                    size += unpacked.write(raw)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.notes.append(f"gzip is damaged after {size:,} unpacked bytes: {error}")
        unpacked.flush()
        if size and size <= _LARGEST:
            return unpacked
        unpacked.close()
        raise UserError(
            f"{self.path}: " + (f"larger than {_LARGEST >> 30} GB when unpacked" if size else (*self.notes, "empty")[0])
        )


def is_perf_data(path: str) -> bool:
    """By its first bytes, gzipped or not."""
    import gzip

    try:
        with _regular(path) as file:
            beginning = file.read(8)
            if beginning.startswith(_GZIP):
                file.seek(0)
                beginning = gzip.GzipFile(fileobj=file).read(8)
    except (OSError, EOFError, zlib.error):
        return False
    return beginning in PERF_DATA


def _regular(path: str) -> IO[bytes]:
    """Opened without blocking: a FIFO with no writer would never open, and a device may never end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(0, "not a regular file", path)


def captured(path: str) -> Samples:
    """The samples of one file, whatever it is."""
    from dataclasses import replace

    label = os.path.basename(path)
    with closing(Opened(path)) as file:
        if not file.size:
            raise UserError(f"{path}: empty")
        try:
            found = _read(file, label)
        except Unparsable as error:
            raise UserError(f"{path}: offset {error.line}: {error.text}") from error
    return replace(found, label=label, notes=(*file.notes, *found.notes))


def _read(file: Opened, label: str) -> Samples:
    beginning = file.read(0, _BEGINNING)
    if beginning.startswith(PERF_DATA):
        from zombiescope.naming.this_machine import Names
        from zombiescope.profile import perf_data

        names = Names(file.path)
        found = perf_data.capture(file.read, file.size, names.kernel, names.symbols, label=label)
        file.notes += names.notes
        return found
    from zombiescope.profile import folded, perf_script, pprof

    for looks_like, parse in (
        (pprof.looks_like, pprof.parse),
        (perf_script.looks_like, perf_script.parse),
        (folded.looks_like, folded.parse),
    ):
        if looks_like(beginning):
            return parse(file.pieces(), label)
    raise UserError(f"{file.path}: {KNOWN} (it begins with {beginning[:16]!r})")
