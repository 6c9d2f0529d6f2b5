"""Files packed with gzip, bzip2, xz or zstd, as logs are rotated: recognised by their first bytes, not by name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any

DAMAGED = (EOFError, ValueError, zlib.error, lzma.LZMAError)  # what reading one may raise, beside OSError


def _zstd(file: IO[bytes]) -> Any:
    import pyarrow

    return pyarrow.input_stream(file, compression="zstd")


_OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}


def is_packed(file: IO[bytes]) -> bool:
    """Of a file that stands at its beginning, and does so afterwards."""
    beginning = file.read(max(map(len, _OPENERS)))
    file.seek(0)
    return beginning.startswith(tuple(_OPENERS))


def plain(file: IO[bytes]) -> IO[bytes]:
    """What is in a file that stands at its beginning, to be read forwards; the file itself if it is not packed."""
    beginning = file.read(max(map(len, _OPENERS)))
    file.seek(0)
    for magic, opened in _OPENERS.items():
        if beginning.startswith(magic):
            unpacked: IO[bytes] = opened(file)
            return unpacked
    return file
