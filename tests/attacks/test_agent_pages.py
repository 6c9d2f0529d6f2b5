"""Other users of a node, and pods on its network, who want to read what only root may see: the agent's pages."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.running import raw, running
from tests.attacks.stranger import ROOT, as_stranger
from tests.conftest import Run

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
PAGES = (
    *("/", "/case", "/findings", "/events", "/reboot", "/remedies", "/page/", "/page/page.js", "/page/bundle"),
    *("/debug/pprof/profile?seconds=10", "/fleet/hours", "/fleet/parcel?hour=1794000000", "/nowhere"),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody can look into, as the kubelet makes a hostPath."""
    made = Path(tempfile.mkdtemp(prefix="zombiescope-attack-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def status(port: int, path: str, *headers: str, host: str = "localhost") -> int:
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", "")
    answer = raw(port, "\r\n".join(lines).encode(), 60)
    return int(answer.split(b" ", 2)[1])


@ROOT
def test_a_local_user_asks_the_port_on_loopback(tmp_path: Path) -> None:
    """A user without rights, or a pod on the node's network, reads stacks and findings by the agent's port."""
    with running(tmp_path / "rec") as agent:
        port = agent.port
        assert as_stranger(lambda: [status(port, it) for it in PAGES]) == [401] * len(PAGES)
        assert as_stranger(lambda: [status(port, it) for it in ("/metrics", "/healthz")]) == [200, 503]


def test_who_may_read_the_token_reads_everything(tmp_path: Path) -> None:
    """No attack: the token is a file for its owner alone, no log has it, and it lasts until it is removed."""
    file = tmp_path / "rec/agent/token"
    with running(tmp_path / "rec") as agent:
        agent.until(lambda: agent.said(f"needs the token in {file}"))
        word = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(word) >= 43
        bearer = f"Authorization: Bearer {word}"
        assert [status(agent.port, it, bearer) for it in ("/", "/events", "/metrics")] == [200, 200, 200]
        assert status(agent.port, "/events", bearer + "x") == 401
        assert not any(word in line for line in (*agent.log, *agent.out))
    with running(tmp_path / "rec") as agent:
        assert status(agent.port, "/events", bearer) == 200
    file.unlink()
    with running(tmp_path / "rec") as agent:
        assert status(agent.port, "/events", bearer) == 401


@ROOT
def test_a_local_user_opens_the_socket_or_the_token(folder: Path) -> None:
    """A user without rights connects to the agent's socket, or reads its token, where the folder above is open."""
    own = folder / "agent"

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(own / "socket"))

    with running(folder) as agent:
        agent.until(lambda: agent.said("records into"))
        assert as_stranger(connect) == errno.EACCES
        assert as_stranger(lambda: (own / "token").read_text()) == errno.EACCES
        assert as_stranger(lambda: os.listdir(own)) == errno.EACCES
        modes = [stat.S_IMODE((own / name).stat().st_mode) for name in (".", "socket", "token")]
        assert modes == [0o700, 0o600, 0o600]
        assert agent.get("/events") == b"[]\n"


@ROOT
def test_a_local_user_looks_into_a_folder_of_an_earlier_version(folder: Path) -> None:
    """The agent's folder was left open for others: they would read the token, and connect to the socket."""
    (folder / "agent").mkdir(mode=0o755)
    with running(folder) as agent:
        agent.until(lambda: agent.said("records into"))
        assert as_stranger(lambda: (folder / "agent/token").read_text()) == errno.EACCES


def test_a_link_where_the_token_should_be(tmp_path: Path) -> None:
    """A link in the place of the token: a file of somebody else would be the token, or be written over."""
    victim = tmp_path / "victim"
    victim.write_text("a-word-that-somebody-knows")
    victim.chmod(0o600)
    (tmp_path / "rec/agent").mkdir(parents=True, mode=0o700)
    (tmp_path / "rec/agent/token").symlink_to(victim)
    (tmp_path / "rec").chmod(0o700)
    with running(tmp_path / "rec") as agent:
        agent.until(lambda: agent.said("token: a token could not be made"))
        assert status(agent.port, "/events", "Authorization: Bearer a-word-that-somebody-knows") == 401
        assert agent.get("/events") == b"[]\n", "the socket answers all the same"
    assert victim.read_text() == "a-word-that-somebody-knows"


def test_a_web_page_asks_by_a_name_of_its_own(tmp_path: Path) -> None:
    """A web page has its name resolve to 127.0.0.1 and reads what needs no token."""
    with running(tmp_path / "rec") as agent:
        assert status(agent.port, "/metrics", host="evil.example") == 403


def test_open_loopback_is_said_and_stays_on_loopback(tmp_path: Path, zombiescope: Run) -> None:
    """No attack: whoever wants it open has it open on this machine, never beyond, and the log says so."""
    with running(tmp_path / "rec", "--open-loopback") as agent:
        assert [status(agent.port, it) for it in ("/", "/events")] == [200, 200]
        agent.until(lambda: agent.said("every user and every hostNetwork pod of this machine may read everything"))
    done = zombiescope("agent", "--open-loopback", "--listen", "0.0.0.0:0", "--dir", str(tmp_path / "x"), expect=2)
    assert re.search("can be reached from other machines", done.stderr)
