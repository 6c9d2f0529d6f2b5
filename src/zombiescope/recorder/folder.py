"""The folder that is recorded into: private, locked, and held open, so that nothing in it can lead elsewhere.

All is done relative to the open folder and no link is followed. Folders are 0700 and files 0600.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from zombiescope.core import UserError
from zombiescope.core.root_only import PRIVATE_FILE, PRIVATE_FOLDER, private_folder
from zombiescope.recorder.layout import HEAD_FILE, KINDS, LOCK, file_name, is_segment, segment_name

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LAST = 9_999_000_000  # the year 2286: a name beyond it is not a time, and the next one would have eleven digits
# All that a recorder writes into a segment: nothing else in it is ever removed.
_FILES = frozenset(
    file_name(kind, head=head) + part for kind in KINDS for head in (True, False) for part in ("", ".part")
) | {HEAD_FILE}


class Folder:
    """An open folder with a lock on it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # also without a slash at its end, which would follow a link
        self._handle = private_folder(self.path, above=False)
        try:
            self._lock = _locked(self.path, self._handle)
            self._clean()
        except (OSError, UserError):
            os.close(self._handle)
            raise

    def close(self) -> None:
        os.close(self._lock)
        os.close(self._handle)
        self._lock = self._handle = -1  # their numbers may soon mean other files

    def segments(self) -> list[str]:
        """The names of the segments, the oldest first. A file or a link of such a name is none."""
        with os.scandir(self._handle) as entries:
            return sorted(it.name for it in entries if is_segment(it.name) and it.is_dir(follow_symlinks=False))

    def size(self, segment: str) -> int:
        """Bytes of one segment; 0 if it is gone."""
        try:
            with self._inside(segment) as handle, os.scandir(handle) as files:
                return sum(it.stat(follow_symlinks=False).st_size for it in files)
        except OSError:
            return 0

    def unsettled(self) -> list[str]:
        """The segments that have a head, the oldest first."""
        found = []
        for segment in self.segments():
            with suppress(OSError), self._inside(segment) as handle:
                if stat.S_ISREG(os.stat(HEAD_FILE, dir_fd=handle, follow_symlinks=False).st_mode):
                    found.append(segment)
        return found

    def new_segment(self, at: float) -> tuple[str, int]:
        """A new folder and a handle of it. Named by its time, but always later than the one before: clocks are set."""
        number = max([int(at), *(int(name) + 1 for name in self.segments() if int(name) < _LAST)])
        while True:
            name = segment_name(number)
            try:
                os.mkdir(name, PRIVATE_FOLDER, dir_fd=self._handle)
            except FileExistsError:  # a file or a link of this name
                number += 1
                continue
            return name, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._handle)

    def create(self, segment: str, name: str) -> int:
        """A new private file in a segment, open for writing."""
        with self._inside(segment) as handle:
            return create(name, handle)

    def remove(self, segment: str) -> None:
        """Remove a segment; OSError if that is not possible. What we did not write in it stays, and it with it."""
        with self._inside(segment) as handle:
            others = [name for name in os.listdir(handle) if name not in _FILES]
            if others:
                raise OSError(0, f"it holds {others[0]!r}, which is not part of a recording")
            for name in os.listdir(handle):
                os.unlink(name, dir_fd=handle)
        os.rmdir(segment, dir_fd=self._handle)

    def write(self, name: str, content: bytes) -> None:
        """A file beside the segments, written completely or not at all."""
        part = f"{name}.part"
        try:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=self._handle)
            with open(os.open(part, _NEW, PRIVATE_FILE, dir_fd=self._handle), "wb") as file:
                file.write(content)
                file.flush()
                os.fdatasync(file.fileno())
            os.replace(part, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError as error:
            raise UserError(f"{self.path}/{name}: cannot be written: {_why(error)}") from error

    def forget(self, names: Iterable[str]) -> None:
        """Remove files beside the segments."""
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._handle)

    @contextmanager
    def _inside(self, segment: str) -> Iterator[int]:
        handle = os.open(segment, _FOLDER | os.O_NOFOLLOW, dir_fd=self._handle)
        try:
            yield handle
        finally:
            os.close(handle)

    def _clean(self) -> None:
        """Remove what a killed recorder left unfinished: heads of finished files, and .part files."""
        for segment in self.segments():
            with suppress(OSError), self._inside(segment) as handle:
                names = set(os.listdir(handle))
                for name in names & _FILES:
                    if name.endswith(".part") or name.replace(".head.", ".") in names - {name}:
                        os.unlink(name, dir_fd=handle)


def create(name: str, folder: int) -> int:
    """A new private file in an open folder. What has its name already is not opened."""
    return os.open(name, _NEW, PRIVATE_FILE, dir_fd=folder)


def _locked(path: str, folder: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(LOCK, flags, PRIVATE_FILE, dir_fd=folder)
    except OSError as error:
        raise UserError(f"{path}/{LOCK}: cannot be opened: {_why(error)}") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UserError(f"{path}/{LOCK}: not a regular file: remove it, or give another folder")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UserError(f"{path}: another recorder writes here: stop it, or give another folder") from None
    except UserError:
        os.close(handle)
        raise
    return handle


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
