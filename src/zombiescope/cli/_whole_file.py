"""A file that appears only when it is complete; what is no plain file (a device, a pipe) is written to, never replaced.

Replacing is what makes a file appear whole, and what would turn /dev/null into a file for everybody on the node.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from zombiescope.core.errors import UserError


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """To write into. If that fails, what was there before is as it was."""
    try:
        with _plain(os.path.realpath(path)) if _replaceable(path) else open(path, "wb") as out:
            yield out
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error


def _replaceable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def _plain(path: str) -> Iterator[IO[bytes]]:
    unfinished = f"{path}.{os.urandom(6).hex()}.unfinished"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, 0o666), "wb") as out:
            yield out
        os.replace(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
