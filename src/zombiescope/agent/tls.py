"""TLS for the agent's server and for what it posts: certificates from files, read again when these change.

`ssl` takes 4 MB, so it is imported only where a certificate or an https address is configured.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from zombiescope.agent.settings import Settings
from zombiescope.core import UserError

if TYPE_CHECKING:
    import ssl

CHECKED = 10.0  # seconds between two looks at the files: certificates are renewed every few hours at most
MOST_FILE = 1 << 20  # bytes of a certificate file: all public authorities together have 0.3 MB
POSTED_WITH = ("post_ca_file", "post_cert_file", "post_key_file")  # settings
_Files = tuple[tuple[int, int, int], ...]  # of each file: device, inode, time of the last change


class Certificates:
    """A context for connections, made of files. Files that are renewed are read again; a mistake keeps the old ones."""

    def __init__(self, make: Callable[[], ssl.SSLContext], paths: tuple[str, ...]) -> None:
        self._make, self._paths = make, tuple(filter(None, paths))
        self._seen = _seen(self._paths)
        self._context = make()
        self._checked = time.monotonic()
        self._trouble, self._said = "", ""  # why files that changed are not used; what `news` told of that

    def context(self) -> ssl.SSLContext:
        now = time.monotonic()
        if now - self._checked >= CHECKED:
            self._checked = now
            seen = _seen(self._paths)
            if seen != self._seen:
                self._renew(seen)
        return self._context

    def news(self) -> str:
        """What to log: that renewed files cannot be used, and why, once. Empty: nothing new."""
        said, self._said = self._said, self._trouble
        return self._trouble if self._trouble != said else ""

    def _renew(self, seen: _Files) -> None:
        try:
            self._context, self._trouble = self._make(), ""
        except (
            UserError
        ) as error:  # a certificate and a key that are replaced one after the other do not fit for a moment
            self._trouble = f"{error}: the certificates from before stay"
        else:
            self._seen = seen


def for_clients(settings: Settings, *, asks: bool) -> Certificates | None:
    """What the server shows, or None without TLS. `asks`: for a certificate that the client authority has signed."""
    it = settings
    if not it.tls_cert_file:
        return None

    def make() -> ssl.SSLContext:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # one request a connection: nobody comes back with a ticket
        _own(context, it.tls_cert_file, it.tls_key_file, "tls")
        if asks and it.tls_client_ca_file:
            _trusted(context, it.tls_client_ca_file, "tls-client-ca-file")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return Certificates(make, (it.tls_cert_file, it.tls_key_file, it.tls_client_ca_file))


def for_servers(settings: Settings, *urls: str) -> Certificates | None:
    """What we post with: the authorities that we trust, our own certificate if we have one. None: nothing is https."""
    it = settings
    if not any(url.startswith("https:") for url in urls):
        return None

    def make() -> ssl.SSLContext:
        import ssl

        if it.post_ca_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # with this authority alone
            _trusted(context, it.post_ca_file, "post-ca-file")
        else:
            context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if it.post_cert_file:
            _own(context, it.post_cert_file, it.post_key_file, "post")
        return context

    return Certificates(make, (it.post_ca_file, it.post_cert_file, it.post_key_file))


def check(settings: Settings) -> None:
    """A UserError for files that do not work, before anything starts."""
    for prefix in ("tls", "post"):
        cert, key = (getattr(settings, f"{prefix}_{it}_file") for it in ("cert", "key"))
        if bool(cert) != bool(key):
            raise UserError(f"{prefix}-cert-file and {prefix}-key-file: give both, or neither")
    if settings.tls_client_ca_file and not settings.tls_cert_file:
        raise UserError("tls-client-ca-file: needs tls-cert-file and tls-key-file too")
    for_clients(settings, asks=True)
    if settings.post_ca_file or settings.post_cert_file:
        for_servers(settings, "https:")


def _own(context: ssl.SSLContext, cert: str, key: str, prefix: str) -> None:
    _readable(cert, f"{prefix}-cert-file", private=False)
    _readable(key, f"{prefix}-key-file", private=True)
    try:
        context.load_cert_chain(cert, key, password=lambda: "")  # one that needs a password is refused, nobody is asked
    except (OSError, ValueError) as error:
        raise UserError(f"{prefix}-cert-file {cert} and {prefix}-key-file {key}: {_why(error)}") from error


def _trusted(context: ssl.SSLContext, path: str, key: str) -> None:
    _readable(path, key, private=False)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{key}: {path}: {_why(error)}") from error


def _readable(path: str, key: str, *, private: bool) -> None:
    """A regular file of sensible size; a key belongs to us and is for nobody else."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise UserError(f"{key}: {path}: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_FILE:
        raise UserError(f"{key}: {path}: not a regular file of at most 1 MB")
    if private and (found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid())):
        raise UserError(f"{key}: {path}: others can read or own it: chown it to the agent's user, and chmod 600")


def _why(error: Exception) -> str:
    """OpenSSL's reason in words: KEY_VALUES_MISMATCH."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return str(reason).replace("_", " ").lower()


def _seen(paths: tuple[str, ...]) -> _Files:
    found = []
    for path in paths:
        try:
            it = os.stat(path)
            found.append((it.st_dev, it.st_ino, it.st_mtime_ns))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
