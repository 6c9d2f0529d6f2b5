"""Where a fleet's tables are kept: a folder, or a bucket of an S3-compatible store. Objects never change.

`create` is conditional: of two writers of one key, one wins and the other learns it. All else is built on that.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from zombiescope.core import UserError, harmless

if TYPE_CHECKING:
    import ssl

MOST_OBJECT = 1 << 30  # bytes of one object that are read: files are made of 8 to 64 MB


class Taking(Protocol):
    """What can be written to."""

    url: str

    def create(self, key: str, content: bytes) -> bool:
        """Whole or not at all; False if it was there already."""

    def has(self, key: str) -> bool: ...


class Store(Taking, Protocol):
    """What can be read, too."""

    def read(self, key: str) -> bytes: ...

    def keys(self, below: str) -> Iterator[str]: ...

    def listed(self, below: str) -> Iterator[tuple[str, float]]:
        """Keys, and when each was written."""

    def remove(self, key: str) -> None:
        """Gone afterwards; one that is not there is no error."""

    def path(self, key: str) -> str:
        """A local file with the object's content, for readers that need one."""


class Missing(UserError):
    """An object that is not there."""


class Unwanted(UserError):
    """An object that this store will never take."""


def taking(url: str, token: str = "", context: ssl.SSLContext | None = None) -> Taking:
    """A store, or https://COLLECTOR, which only takes what nodes send, from those who have its token."""
    if urlsplit(url).scheme in ("http", "https"):
        from zombiescope.fleet.collector import Collector

        return Collector(url, token, context)
    return opened(url)


def opened(url: str) -> Store:
    """file:///path, a plain path, s3://bucket/prefix (credentials as the AWS tools find them)."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else url
        if not path or parts.netloc not in ("", "localhost"):
            raise UserError(f"{harmless(url)}: not a store: give a folder, file:///PATH or s3://BUCKET/PREFIX")
        return Folder(os.path.abspath(path))
    if parts.scheme in ("s3", "s3a", "gs", "az", "memory"):
        from zombiescope.fleet.object_store import Bucket

        return Bucket(url)
    if parts.scheme in ("http", "https"):
        raise UserError(f"{harmless(url)}: a collector only takes what nodes send: give the store that it keeps")
    raise UserError(f"{harmless(url)}: not a store: give a folder, file:///PATH or s3://BUCKET/PREFIX")


class Folder:
    """A folder, local or on a shared file system. Files are private, and appear whole: what is done is linked."""

    def __init__(self, folder: str, *, durable: bool = True) -> None:
        self.folder, self.url = folder, f"file://{folder}"
        self._durable = durable  # on the disk before `create` returns; what can be made again need not be

    def create(self, key: str, content: bytes) -> bool:
        path = self.path(key)
        folder = os.path.dirname(path)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            begun = os.path.join(folder, f".{secrets.token_hex(8)}.part")
            handle = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    if self._durable:
                        os.fsync(file.fileno())
                os.link(begun, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(begun)
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        return True

    def has(self, key: str) -> bool:
        return os.path.lexists(self.path(key))

    def read(self, key: str) -> bytes:
        path = self.path(key)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise UserError(f"{path}: not a regular file")
                content = file.read(min(found.st_size, MOST_OBJECT) + 1)  # Python takes memory for all it may read
        except FileNotFoundError:
            raise Missing(f"{path}: no such object") from None
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        if len(content) > MOST_OBJECT:
            raise UserError(f"{path}: larger than {MOST_OBJECT >> 20} MB")
        return content

    def keys(self, below: str) -> Iterator[str]:
        """In no order. Links and files that are still being written are left out."""
        waiting = [below.strip("/")]
        while waiting:
            key = waiting.pop()
            try:
                with os.scandir(os.path.join(self.folder, key)) as entries:
                    found = [
                        (it.name, it.is_dir(follow_symlinks=False), it.is_file(follow_symlinks=False)) for it in entries
                    ]
            except FileNotFoundError:
                continue
            except NotADirectoryError:
                where = os.path.join(self.folder, key)
                while not os.path.isdir(os.path.dirname(where)):
                    where = os.path.dirname(where)
                raise UserError(f"{harmless(where)}: not a folder, so not a store") from None
            except OSError as error:
                raise UserError(f"{self.folder}/{key}: {(error.strerror or str(error)).lower()}") from error
            for name, is_folder, is_file in found:
                if is_folder:
                    waiting.append(f"{key}/{name}")
                elif is_file and not name.startswith("."):
                    yield f"{key}/{name}"

    def listed(self, below: str) -> Iterator[tuple[str, float]]:
        for key in self.keys(below):
            with suppress(OSError):  # it has just been removed
                yield key, os.lstat(self.path(key)).st_mtime

    def remove(self, key: str) -> None:
        try:
            os.unlink(self.path(key))
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self.path(key)}: {(error.strerror or str(error)).lower()}") from error

    def path(self, key: str) -> str:
        return os.path.join(self.folder, key)
