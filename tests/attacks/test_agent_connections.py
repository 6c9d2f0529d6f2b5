"""Peers that want the agent's server for themselves alone, or want it to burn a core: connections and handshakes."""

from __future__ import annotations

import os
import resource
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agent.running import Agent, running
from tests.agent.test_serving import GET, status
from tests.agent.test_tls import context, pki, serves
from tests.meanwhile import meanwhile

from zombiescope.agent.listeners import ADDRESSES, OWN_EACH_SECOND, OWN_HANDSHAKES
from zombiescope.agent.pace import Paces

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
__all__ = ["pki"]
HOSTILE, SCRAPER = "127.0.0.66", "127.0.0.9"  # all of 127.0.0.0/8 is this machine
SECONDS = 3.0


def from_(address: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(address, 0))


def cpu(agent: Agent) -> float:
    """Seconds that its main process has used."""
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_connection_comes_when_no_descriptor_is_left(tmp_path: Path) -> None:
    """All descriptors are used up: a connection that cannot be accepted keeps the loop at full speed."""
    with running(tmp_path / "rec") as agent:
        agent.until(lambda: agent.said("records into"))
        pid, port = agent.process.pid, agent.port
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))  # it keeps what it has, and gets no other
        with from_(HOSTILE, port) as client:
            client.sendall(GET)
            before = cpu(agent)
            time.sleep(SECONDS)
            burnt = cpu(agent) - before
            assert not select.select([client], [], [], 0)[0], "nobody could answer it"
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert burnt < 0.1 * SECONDS, f"{burnt:.2f} s of CPU in {SECONDS:.0f} s"
            assert client.recv(12) == b"HTTP/1.1 200"
        assert len([line for line in agent.log if "connections wait, as there is no room for them" in line]) == 1


def test_one_peer_opens_handshakes_without_end(pki: Path, tmp_path: Path) -> None:
    """One address uses up the pace of TLS handshakes: a scraper's are closed."""
    with running(tmp_path / "rec", *serves(pki)) as agent:
        port = agent.port

        def greet(over: threading.Event) -> None:
            while not over.is_set():
                crowd = [socket.socket() for _ in range(50)]
                for one in crowd:
                    one.bind((HOSTILE, 0))
                    one.setblocking(False)
                    one.connect_ex(("127.0.0.1", port))
                time.sleep(0.02)
                for one in crowd:
                    one.close()

        answered = []
        with meanwhile(greet):
            time.sleep(2)  # what may be had at once is used up
            for _ in range(8):
                answered.append(_scraped(port, context(pki)))
                time.sleep(0.2)
        assert answered == [200] * 8


def _scraped(port: int, with_: ssl.SSLContext) -> int:
    try:
        with from_(SCRAPER, port) as plain, with_.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            client.sendall(GET)
            return int(client.recv(12)[9:12])
    except OSError:  # its handshake was closed
        return 0


def test_one_peer_takes_every_place(tmp_path: Path) -> None:
    """One address opens connections without end, so that all others lose their place before they have asked."""
    with running(tmp_path / "rec") as agent:
        port = agent.port
        held: list[socket.socket] = []

        def hold(over: threading.Event) -> None:
            while not over.is_set():
                with suppress(OSError):
                    held.append(from_(HOSTILE, port))
                if len(held) > 300:
                    held.pop(0).close()
                time.sleep(0.001)

        with meanwhile(hold):
            agent.until(lambda: len(held) > 200)
            with from_(SCRAPER, port) as client:
                time.sleep(2)  # slow, but within what it is given: some hundreds have come meanwhile
                client.sendall(GET)
                assert client.recv(12) == b"HTTP/1.1 200"
            assert status(_raw(port)) == 200
        for one in held:
            one.close()


def _raw(port: int) -> bytes:
    with from_(SCRAPER, port) as client:
        client.sendall(GET)
        pieces = []
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_peers_of_very_many_addresses() -> None:
    """A hundred thousand addresses come by turns: the table of their paces stays small."""
    paces = Paces(OWN_HANDSHAKES, OWN_EACH_SECOND, ADDRESSES)
    assert all(paces.allows(f"10.0.{number >> 8}.{number & 255}") for number in range(100_000))
    assert len(paces) == ADDRESSES
    assert [paces.allows("10.0.0.1") for _ in range(int(OWN_HANDSHAKES) + 1)].count(False) == 1
