"""Where an API server is and how it knows us: a service account's mounted files, or a kubeconfig.

Whatever is a file is read again for each request: the kubelet replaces a token before it expires, and a cluster's
certificates are replaced while we run.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from zombiescope.core import Host, Unreadable, UserError

MOUNTED = "/var/run/secrets/kubernetes.io/serviceaccount"
MOST = 1 << 20  # bytes of a certificate file; a bundle of every public authority has 200 KB
MOST_TOKEN = 64 << 10  # bytes; a service account's has one or two thousand
_WORD = re.compile(r"[\x21-\x7e]+")  # of a header: a newline in it would begin another


@dataclass(frozen=True, slots=True)
class Kept:
    """A secret or certificate: by the file that holds it, or written out in a kubeconfig."""

    file: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.text)

    def read(self, most: int = MOST) -> str:
        return Host().read(self.file, most=most) if self.file else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One server; without `ca` it must have a certificate that this system trusts."""

    server: str
    ca: Kept = Kept()
    token: Kept = Kept()
    certificate: Kept = Kept()
    key: Kept = Kept()
    server_name: str = ""  # that the certificate must be for, if not the address

    def __post_init__(self) -> None:
        address(self.server)

    def bearer(self) -> str:
        """The token as it is now; empty if there is none."""
        if not self.token:
            return ""
        word = self.token.read(MOST_TOKEN).strip()
        if not _WORD.fullmatch(word):
            raise Unreadable(self.token.file or "token", "not one word of printable ASCII")
        return word

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or newer, the server's certificate and name checked: there is no way to switch that off."""
        try:
            authorities = self.ca.read() if self.ca else None
            if authorities is not None and not authorities.strip():  # OpenSSL would trust the system's instead
                raise ValueError("the file is empty")
            context = ssl.create_default_context(cadata=authorities)
            if self.certificate:
                with _as_file(self.certificate) as certificate, _as_file(self.key) as key:
                    # A key with a pass phrase would ask for it on the terminal.
                    context.load_cert_chain(certificate, key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise Unreadable(self.ca.file or self.certificate.file or "certificates", f"not usable: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def address(server: str) -> tuple[str, int, str]:
    """Host, port and path of an https:// address. Plain http would hand the token to anybody on the way."""
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme != "https" or not _WORD.fullmatch(server) or parts.username is not None or parts.query:
        raise UserError(f"{server!r} is not the https:// address of an API server")
    return host, port, parts.path.rstrip("/")


def in_cluster(environment: Mapping[str, str] = os.environ, folder: str = MOUNTED) -> Access:
    """As every pod finds it: two variables and a folder of files."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise UserError("not in a pod (KUBERNETES_SERVICE_HOST is not set): give a kubeconfig")
    around = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{around}:{port}", ca=Kept(file=f"{folder}/ca.crt"), token=Kept(file=f"{folder}/token")
    )


@contextmanager
def _as_file(kept: Kept) -> Iterator[str]:
    """OpenSSL reads certificates from files alone: a text becomes one in memory, never on disk."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, kept.read().encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
