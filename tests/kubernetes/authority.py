"""A certificate authority for one test run: certificates of servers and of users, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import CANNOT


class Authority:
    def __init__(self, folder: Path, name: str = "zombiescope-test") -> None:
        if shutil.which("openssl") is None:
            pytest.skip(CANNOT + "openssl is missing")
        self.folder, self._name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        constraints = ["-addext", "keyUsage=critical,keyCertSign"]  # openssl adds that it is an authority
        _openssl(
            *("req", "-x509", "-subj", f"/CN={name}", "-days", "2", *constraints),
            *(*_new_key(self._key), "-out", str(self.file)),
        )

    def certificate(self, name: str, *, group: str = "", alternatives: str = "") -> tuple[Path, Path]:
        """Of a user (`group` is its O) or of a server (`alternatives`, such as IP:127.0.0.1); with its key."""
        certificate, key, request = (self.folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
        subject = (f"/O={group}" if group else "") + f"/CN={name}"
        _openssl("req", "-subj", subject, *_new_key(key), "-out", str(request))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "extendedKeyUsage=clientAuth\n")
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-days", "2", "-extfile", str(extensions), "-out", str(certificate)),
        )
        return certificate, key


def _new_key(key: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key)]


def _openssl(*argv: str) -> None:
    subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=30)
