"""A store in a bucket: S3 and what speaks like it, through obstore. What was read once is kept in a private folder.

Objects never change, so a kept file is never stale. Credentials, region and endpoint come from the usual variables
(AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT …), a profile is not read; an instance's role is.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.fleet.store import MOST_OBJECT, Missing

MOST_KEPT = 20 << 30  # bytes of kept files; the oldest go first


class Bucket:
    def __init__(self, url: str) -> None:
        try:
            from obstore.store import from_url
        except ImportError:
            raise UserError(f"{harmless(url)}: needs obstore: pip install 'zombiescope[fleet]'") from None
        self.url = url.rstrip("/")
        self._errors = _errors()
        try:
            # A store that is slow or fails for a while is asked again; for ever is no answer.
            self._store: Any = (
                from_url(url)
                if url.startswith("memory:")
                else from_url(url, retry_config={"max_retries": 8, "retry_timeout": timedelta(seconds=90)})
            )
        except self._errors as error:
            raise UserError(f"{harmless(url)}: {_first(error)}") from error
        kept = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        self._kept = os.path.join(kept, "zombiescope", "fleet", hashlib.blake2b(url.encode()).hexdigest()[:16])

    def create(self, key: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._said_of(key):
            try:
                obstore.put(self._store, key, content, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def has(self, key: str) -> bool:
        import obstore

        with self._said_of(key):
            try:
                obstore.head(self._store, key)
            except FileNotFoundError:
                return False
        return True

    def read(self, key: str) -> bytes:
        import obstore

        with self._said_of(key):
            try:
                found = obstore.get(self._store, key)
                if found.meta["size"] > MOST_OBJECT:
                    raise UserError(f"{self.url}/{key}: larger than {MOST_OBJECT >> 20} MB")
                return bytes(found.bytes())
            except FileNotFoundError:
                raise Missing(f"{self.url}/{key}: no such object") from None

    def keys(self, below: str) -> Iterator[str]:
        for key, _ in self.listed(below):
            yield key

    def listed(self, below: str) -> Iterator[tuple[str, float]]:
        import obstore

        with self._said_of(below):
            for page in obstore.list(self._store, below.strip("/") + "/", chunk_size=1000):
                for it in page:
                    yield str(it["path"]), it["last_modified"].timestamp()

    def remove(self, key: str) -> None:
        import obstore

        with self._said_of(key), suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    @contextmanager
    def _said_of(self, key: str) -> Iterator[None]:
        """Any mistake of the store, in one line."""
        try:
            yield
        except self._errors as error:
            raise UserError(f"{self.url}/{key}: {_first(error)}") from error

    def path(self, key: str) -> str:
        where = os.path.join(self._kept, key)
        if not os.path.exists(where):
            os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
            self._make_room()
            begun = f"{where}.{secrets.token_hex(4)}.part"
            with os.fdopen(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(self.read(key))
            os.replace(begun, where)
        return where

    def _make_room(self) -> None:
        found = []
        for folder, _, names in os.walk(self._kept):
            for name in names:
                there = os.stat(os.path.join(folder, name))
                found.append((there.st_mtime, there.st_size, os.path.join(folder, name)))
        size = sum(it[1] for it in found)
        for _, its, path in sorted(found):
            if size <= MOST_KEPT:
                return
            os.unlink(path)
            size -= its


def _errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError

    return (BaseError, OSError, ValueError)


def _first(error: BaseException) -> str:
    return harmless(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, most=200)
