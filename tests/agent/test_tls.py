"""TLS of the agent's server and of what it posts: real certificates, real handshakes, strangers and mistakes."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.agent.running import Agent, running
from tests.agent.test_posting import receiver
from tests.agent.test_serving import GET, descriptors, resident, status
from tests.conftest import CANNOT, Run
from tests.waiting import until

from zombiescope.agent import posting
from zombiescope.agent.posting import Poster
from zombiescope.agent.settings import Settings
from zombiescope.agent.tls import for_servers

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
OWN_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our authority with `server` and `client`, and another one with `stranger`."""
    if shutil.which("openssl") is None:
        pytest.skip(f"{CANNOT}openssl is not installed")
    folder = tmp_path_factory.mktemp("pki")
    for authority in ("ca", "others"):
        files = ("-keyout", f"{authority}.key", "-out", f"{authority}.crt")
        _openssl(folder, "req", "-x509", *OWN_KEY, "-subj", f"/CN={authority}", *files)
    for name, authority in (("server", "ca"), ("renewed", "ca"), ("client", "ca"), ("stranger", "others")):
        signed(folder, name, authority)
    return folder


def signed(folder: Path, name: str, authority: str) -> None:
    names = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    _openssl(folder, "req", *OWN_KEY, *names, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    by = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial", "-copy_extensions", "copyall")
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *by, "-days", "2", "-out", f"{name}.crt")
    (folder / f"{name}.key").chmod(0o600)


def _openssl(folder: Path, *argv: str) -> None:
    subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True)


def serves(folder: Path, *more: str) -> tuple[str, ...]:
    return ("--tls-cert-file", str(folder / "server.crt"), "--tls-key-file", str(folder / "server.key"), *more)


def context(pki: Path, own: str = "") -> ssl.SSLContext:
    it = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    if own:
        it.load_cert_chain(pki / f"{own}.crt", pki / f"{own}.key")
    return it


def got(agent: Agent, path: str, with_: ssl.SSLContext, port: int = 0) -> bytes:
    with urlopen(f"https://127.0.0.1:{port or agent.port}{path}", context=with_, timeout=20) as answer:
        content: bytes = answer.read()
    return content


def asked(port: int, with_: ssl.SSLContext, content: bytes = GET) -> bytes:
    """The answer to these bytes up to its proper end: without a farewell reading would fail."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    with plain, with_.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as client:
        client.sendall(content)
        pieces = []
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_https_with_a_token_and_clients_that_are_wrong(pki: Path, tmp_path: Path) -> None:
    with running(tmp_path, *serves(pki)) as agent:
        port = agent.port
        assert agent.said("listens on https://127.0.0.1")
        assert b"zombiescope_build_info" in got(agent, "/metrics", context(pki))
        assert status(asked(port, context(pki))) == 200
        assert status(asked(port, context(pki), GET.replace(b"localhost", b"evil.example"))) == 403
        assert status(asked(port, context(pki), b"GET /" + b"a" * 30000 + b" HTTP/1.1\r\n\r\n")) == 431
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(port, ssl.create_default_context())
        for version, code in (("-tls1_1", 1), ("-tls1_2", 0), ("-tls1_3", 0)):
            client_ = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version, "-cipher", "ALL@SECLEVEL=0"]
            assert subprocess.run(client_, input=b"", capture_output=True).returncode == code, version
        before, memory = descriptors(agent), resident(agent)
        slow = []
        for number in range(150):  # of which most are refused: handshakes are paced
            client = socket.create_connection(("127.0.0.1", port), timeout=20)
            client.sendall((GET, b"\x16\x03\x01\x02\x00\x01", b"\x16", os.urandom(200))[number % 4])
            slow.append(client)
        agent.until(lambda: descriptors(agent) <= before, 20)  # though none of them hung up
        assert resident(agent) - memory < 8_000_000
        assert agent.until(lambda: _answered(port, context(pki)))
        for client in slow:
            client.close()


def _answered(port: int, with_: ssl.SSLContext) -> bool:
    try:
        return status(asked(port, with_)) == 200
    except OSError:  # the pace of handshakes
        return False


def test_only_those_whom_the_authority_knows(pki: Path, tmp_path: Path, zombiescope: Run) -> None:
    options = serves(pki, "--tls-client-ca-file", str(pki / "ca.crt"), "--metrics-listen", "127.0.0.1:0")
    with running(tmp_path / "rec", *options) as agent:
        agent.until(lambda: agent.said("listens on https://.*/metrics"))
        bound = agent.said(r"listens on https://[^/]*:(\d+)/metrics")
        assert bound
        assert json.loads(got(agent, "/events", context(pki, "client"))) == []
        # Known by its certificate, a client may use any name of the node.
        named = GET.replace(b"localhost", b"node-a")
        assert status(asked(agent.port, context(pki, "client"), named)) == 200
        for nobody in ("", "stranger"):
            with pytest.raises((URLError, OSError)):
                got(agent, "/events", context(pki, nobody))
        assert b"zombiescope_build_info" in got(agent, "/metrics", context(pki), int(bound[1]))
        assert status(asked(int(bound[1]), context(pki), named.replace(b"/metrics", b"/events"))) == 404
        agent.looked_by(lambda path: got(agent, path, context(pki, "client")))
        done = zombiescope("agent", "--dir", str(agent.folder), "--ask")  # by the socket, whatever the port wants
        assert done.returncode in (0, 1) and "UNKNOWN" not in done.stdout, done.stdout


def test_certificates_are_renewed_while_it_runs(pki: Path, tmp_path: Path) -> None:
    for end in ("crt", "key"):
        shutil.copy(pki / f"server.{end}", tmp_path / f"server.{end}")
    with running(tmp_path / "rec", *serves(tmp_path)) as agent:
        assert _shown(agent.port, pki) == "server"
        shutil.copy(pki / "renewed.crt", tmp_path / "server.crt")  # its key comes later
        time.sleep(11)
        assert _shown(agent.port, pki) == "server"
        agent.until(lambda: agent.said("key values mismatch: the certificates from before stay"))
        shutil.copy(pki / "renewed.key", tmp_path / "server.key")
        agent.until(lambda: _shown(agent.port, pki) == "renewed", 30)


def _shown(port: int, pki: Path) -> str:
    time.sleep(0.2)  # handshakes of one address are paced
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    with plain, context(pki).wrap_socket(plain, server_hostname="127.0.0.1") as client:
        found = client.getpeercert()
    return "".join(re.findall(r"'commonName', '(\w+)'", str(found and found["subject"])))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tls-cert-file", "server.crt"], "tls-cert-file and tls-key-file: give both, or neither"),
        (["--tls-client-ca-file", "ca.crt"], "needs tls-cert-file"),
        (["--tls-cert-file", "server.crt", "--tls-key-file", "client.key"], "key values mismatch"),
        (["--tls-cert-file", "server.crt", "--tls-key-file", "missing.key"], "no such file"),
        (["--tls-cert-file", "server.crt", "--tls-key-file", "open.key"], "chmod 600"),
        (["--tls-cert-file", "server.crt", "--tls-key-file", "locked.key"], "tls-key-file"),
        (["--tls-cert-file", "fifo", "--tls-key-file", "server.key"], "not a regular file"),
        (["--post-ca-file", "server.key"], "post-ca-file"),
        (["--listen", "0.0.0.0:0"], "give token-file or tls-client-ca-file too"),
    ],
)
def test_mistakes_end_it_with_one_line(
    pki: Path, tmp_path: Path, zombiescope: Run, options: list[str], why: str
) -> None:
    for end in ("server.crt", "server.key", "client.key", "ca.crt"):
        shutil.copy(pki / end, tmp_path / end)
    shutil.copy(pki / "server.key", tmp_path / "open.key")
    (tmp_path / "open.key").chmod(0o644)
    _openssl(tmp_path, "ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
    (tmp_path / "locked.key").chmod(0o600)
    os.mkfifo(tmp_path / "fifo", 0o600)
    done = zombiescope("agent", "--dir", str(tmp_path / "rec"), *options, expect=2, cwd=str(tmp_path))
    assert why in done.stderr.lower() and len(done.stderr.splitlines()) == 1, done.stderr


def test_what_is_posted_goes_to_those_we_trust_and_shows_who_we_are(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "FIRST_PAUSE", 0.05)
    asks = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    asks.load_cert_chain(pki / "server.crt", pki / "server.key")
    asks.verify_mode = ssl.CERT_REQUIRED
    with receiver() as server:
        server.server.socket = asks.wrap_socket(server.server.socket, server_side=True)
        url = server.url.replace("http:", "https:")

        def posted(authority: str, own: str) -> Poster:
            cert, key = (str(pki / f"{own}.{end}") if own else "" for end in ("crt", "key"))
            settings = Settings(post_ca_file=str(pki / f"{authority}.crt"), post_cert_file=cert, post_key_file=key)
            poster = Poster(url, certificates=for_servers(settings, url))
            poster.put(b"[1]")
            return poster

        for authority, own in (("others", "client"), ("ca", ""), ("ca", "stranger")):
            poster = posted(authority, own)
            assert "does not take what is posted" in until(poster.news) and not server.got
            poster.close(5)
        poster = posted("ca", "client")
        assert server.until(1) == [("/", [1])]
        poster.close(5)
