"""Prometheus and its kin, as tests start them: installed, or unpacked by `make peers`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from tests.conftest import CANNOT, PROJECT

UNPACKED = Path(os.environ.get("ZOMBIESCOPE_PEERS", PROJECT / ".venv" / "peers"))
SHARE = 'mount -t overlay overlay -o lowerdir=$0/usr/share:/usr/share /usr/share && exec "$@"'


def peer(name: str) -> list[str]:
    """How it is started; the test is skipped where it is not here."""
    if os.access(UNPACKED / "usr/bin" / name, os.X_OK):
        program = str(UNPACKED / "usr/bin" / name)
        if name != "prometheus-alertmanager":
            return [program]
        # Its templates are looked for below /usr/share: it sees them there, and nobody else does.
        return ["unshare", "--mount", "sh", "-c", SHARE, str(UNPACKED), program]
    if (found := shutil.which(name)) is None:
        pytest.skip(f"{CANNOT}{name} is not here: make peers (Debian), or install it")
    return [found]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextmanager
def server(*argv: str, ready: str) -> Iterator[int]:
    """Its pid, once it answers."""
    with tempfile.TemporaryFile() as said, subprocess.Popen(argv, stdout=said, stderr=said) as process:
        try:
            deadline = time.monotonic() + 60
            while not answered(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    raise AssertionError(said.read()[-2000:].decode("utf-8", "replace"))
                time.sleep(0.2)
            yield process.pid
        finally:
            end(process, 20)


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """It may end by itself first."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def answered(url: str) -> Any:
    try:
        with urlopen(url, timeout=5) as answer:
            content = answer.read()
    except (URLError, OSError):
        return None
    return json.loads(content) if content[:1] in b"[{" else content


@contextmanager
def prometheus(folder: Path, configuration: str, *options: str) -> Iterator[int]:
    """Its port, once it answers."""
    port, file = free_port(), folder / "prometheus.yml"
    file.write_text(configuration)
    argv = (*peer("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder}/prometheus", *options)
    with server(*argv, f"--web.listen-address=127.0.0.1:{port}", ready=f"http://127.0.0.1:{port}/-/ready"):
        yield port


def result(port: int, query: str) -> list[Any]:
    found: list[Any] = answered(f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}")["data"]["result"]
    return found
