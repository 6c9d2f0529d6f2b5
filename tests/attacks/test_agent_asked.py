"""A local user in the agent's place: it binds the port while the agent is down, and waits for who asks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.attacks.stranger import NOBODY, ROOT, stranger
from tests.conftest import Run
from tests.waiting import until

pytestmark = [pytest.mark.beside, pytest.mark.e2e, ROOT]
TOKEN = "correct-horse-battery"
FORGED = {
    "/reboot": {"needed": True, "because": ["soft_lockup cpu:3"]},
    "/healthz": {"troubles": []},
    "/findings": [],
    "/fleet/hours": {"node": "n", "hours": []},
}


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return str(file)


def _answers(door: socket.socket, heard: int) -> Callable[[], None]:
    """What is asked is kept, and answered as an agent would that has something to say."""

    def act() -> None:
        while True:
            client = door.accept()[0]
            asked = client.recv(65536)
            if not asked:  # hung up on
                client.close()
                continue
            os.write(heard, asked)
            path = asked.split(b" ", 2)[1].decode()
            body = json.dumps(FORGED.get(path, {})).encode()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            client.close()

    return act


@contextmanager
def port_of_a_stranger() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Its address, and what it has heard so far."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def heard() -> bytes:
        try:
            return os.read(reading, 1 << 20)
        except BlockingIOError:
            return b""

    with socket.create_server(("127.0.0.1", 0)) as door, stranger(_answers(door, writing)):
        yield f"127.0.0.1:{door.getsockname()[1]}", heard
    os.close(reading)
    os.close(writing)


def test_a_local_user_has_the_port_when_kured_asks(tmp_path: Path, token: str, zombiescope: Run) -> None:
    """While the agent is down any user binds its port, is sent the token, and says that the node must be rebooted."""
    with port_of_a_stranger() as (address, heard):
        asked = ("agent", "--ask-reboot", "--dir", str(tmp_path / "rec"), "--listen", address, "--token-file", token)
        done = zombiescope(*asked, expect=1)
        assert done.stdout.startswith("not known: no agent runs in")
        done = zombiescope(*asked, "--ask", "--exit-style", "npd")
        assert not heard()


def test_a_local_user_has_the_port_when_a_monitor_asks(tmp_path: Path, token: str, zombiescope: Run) -> None:
    """While the agent is down any user answers Nagios and node-problem-detector: nothing starves."""
    with port_of_a_stranger() as (address, heard):
        asked = ("agent", "--ask", "--dir", str(tmp_path / "rec"), "--listen", address, "--token-file", token)
        done = zombiescope(*asked, expect=3)
        assert done.stdout.startswith("UNKNOWN no agent runs in") and not heard()


def test_a_local_user_has_the_port_when_a_fleet_gathers(tmp_path: Path, token: str, zombiescope: Run) -> None:
    """While the agent is down any user binds its port and is sent the token by `fleet gather`."""
    with port_of_a_stranger() as (address, heard):
        port = address.rpartition(":")[2]
        for name in (address, f"localhost:{port}", f"http://127.0.0.2:{port}"):
            done = zombiescope("fleet", "gather", "--store", str(tmp_path / "s"), "--token-file", token, name)
            assert done.returncode == 3 and "a token is not sent to a port of this machine" in done.stderr
        assert TOKEN.encode() not in heard()


@pytest.fixture
def strangers_folder() -> Iterator[Path]:
    """A folder of that user, with a socket where an agent would have it."""
    folder = Path(tempfile.mkdtemp(prefix="zombiescope-attack-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "agent").mkdir()
    os.chown(folder / "agent", NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def test_a_local_user_has_the_socket_when_root_asks(strangers_folder: Path, zombiescope: Run) -> None:
    """A socket of another user where the agent's should be: root would believe what it answers."""
    reading, writing = os.pipe()
    path = strangers_folder / "agent" / "socket"

    def act() -> None:
        door = socket.socket(socket.AF_UNIX)
        door.bind(str(path))
        os.chmod(path, 0o666)
        door.listen()
        _answers(door, writing)()

    with stranger(act):
        until(path.exists)
        here = ("--dir", str(strangers_folder))
        done = zombiescope("agent", "--ask-reboot", *here, expect=1)
        assert f"belongs to uid {NOBODY}, neither root nor this user" in done.stdout
        assert zombiescope("agent", "--ask", *here, expect=3).stdout.startswith("UNKNOWN the agent in ")
        assert f"belongs to uid {NOBODY}" in zombiescope("agent", "--get", "/case", *here, expect=3).stderr
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 100)
    os.close(reading)
    os.close(writing)
