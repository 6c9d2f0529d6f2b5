"""Peers of the fleet's receiver and of the page's server that want them to burn a core."""

from __future__ import annotations

import os
import re
import resource
import select
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import COMMAND
from tests.waiting import until

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
SECONDS = 3.0
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "verb",
    [("fleet", "serve", "--store", "{}", "--listen", "127.0.0.1:0", "--compact-every", "0"), ("view", "--sample")],
)
def test_a_connection_comes_when_no_descriptor_is_left(verb: tuple[str, ...], tmp_path: Path) -> None:
    """All descriptors are used up: for each connection the server tries thousands of times, and logs as often."""
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen([str(COMMAND), *(it.format(tmp_path) for it in verb)], stdout=out, stderr=out)
    try:
        (address,) = until(lambda: re.findall(r"http://127\.0\.0\.1:(\d+)", log.read_text()))[:1]
        port = int(address)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as first:
            first.sendall(GET)
            assert first.recv(8) == b"HTTP/1.1"  # it serves: what it opens once is open
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(GET)
            before = _cpu(server.pid)
            time.sleep(SECONDS)
            burnt = _cpu(server.pid) - before
            assert not select.select([client], [], [], 0)[0], "nobody could answer it"
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
            assert burnt < 0.1 * SECONDS, f"{burnt:.2f} s of CPU in {SECONDS:.0f} s"
            assert log.stat().st_size < 50_000, "what it logs must not fill the disk"
            assert client.recv(8) == b"HTTP/1.1"
    finally:
        server.terminate()
        server.wait(60)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
