"""Parcels that wait on the node until the store has taken them: in a folder of bounded size, each hour once.

1794000000.parcel    the hour that begins then; written beside it first, so it is whole
1794000000.sent      an empty file: the store has it. It is not made again
1794000000.lost      an empty file: given up, since the folder was full or the store will never take it
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress

from zombiescope.core import UserError
from zombiescope.core.root_only import private_folder
from zombiescope.fleet.hours import Hour

MOST_BYTES = 64 << 20  # of parcels that wait: some two weeks of 200 KB an hour
_NAME = re.compile(r"(\d{1,12})\.(parcel|sent|lost)")


class Spool:
    def __init__(self, folder: str, most: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most
        os.close(private_folder(folder))

    def waiting(self) -> list[Hour]:
        """Oldest first."""
        return sorted(hour for hour, states in self._states().items() if states == {"parcel"})

    def known(self) -> set[Hour]:
        """Hours that need not be made again."""
        return set(self._states())

    def put(self, hour: Hour, content: bytes) -> int:
        """How many of the oldest were given up to make room for it."""
        lost = 0
        sizes = {it: self._size(it) for it in self.waiting()}
        for old in sorted(sizes):
            if sum(sizes.values()) + len(content) <= self._most:
                break
            self.done(old, "lost")
            del sizes[old]
            lost += 1
        begun = os.path.join(self._folder, f".{secrets.token_hex(8)}.part")
        try:
            handle = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(begun, self._path(hour, "parcel"))
        except OSError as error:
            with suppress(OSError):
                os.unlink(begun)
            raise UserError(f"{self._folder}: {(error.strerror or str(error)).lower()}") from error
        return lost

    def read(self, hour: Hour) -> bytes:
        try:
            with open(self._path(hour, "parcel"), "rb") as file:
                return file.read()
        except OSError as error:
            raise UserError(f"{self._folder}: {(error.strerror or str(error)).lower()}") from error

    def done(self, hour: Hour, how: str) -> None:
        """`sent` or `lost`. First the mark: killed between the two, it is sent once more and counts once."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            os.close(os.open(self._path(hour, how), flags, 0o600))
            with suppress(FileNotFoundError):
                os.unlink(self._path(hour, "parcel"))
        except OSError as error:
            raise UserError(f"{self._folder}: {(error.strerror or str(error)).lower()}") from error

    def tidy(self, before: Hour) -> None:
        """Remove marks of hours that the recording no longer has, and what was left half written."""
        for hour, states in self._states().items():
            for state in states - {"parcel"} if hour < before else set():
                with suppress(OSError):
                    os.unlink(self._path(hour, state))
        for name in os.listdir(self._folder):
            if name.startswith(".") and name.endswith(".part"):
                with suppress(OSError):
                    os.unlink(os.path.join(self._folder, name))

    def _states(self) -> dict[Hour, set[str]]:
        found: dict[Hour, set[str]] = {}
        for name in os.listdir(self._folder):
            if its := _NAME.fullmatch(name):
                found.setdefault(Hour(int(its[1])), set()).add(its[2])
        return found

    def _size(self, hour: Hour) -> int:
        with suppress(OSError):
            return os.lstat(self._path(hour, "parcel")).st_size
        return 0

    def _path(self, hour: Hour, state: str) -> str:
        return os.path.join(self._folder, f"{hour.start}.{state}")
