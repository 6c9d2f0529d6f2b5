"""The API client against servers that lie, hang and flood: real TLS, real sockets."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kubernetes.authority import Authority
from tests.kubernetes.bad_server import bad_server, drips, says, sends

from zombiescope.core import UserError
from zombiescope.kubernetes.access import Access, Kept, in_cluster
from zombiescope.kubernetes.client import MOST, STRATEGIC, Client, Refused
from zombiescope.kubernetes.pausing import LONGEST, Pausing

NODE = {"kind": "Node", "metadata": {"name": "n1"}}


def test_a_request_carries_token_kind_and_body(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE, "Date: Tue, 17 Nov 2026 00:00:00 GMT")) as (server, access):
        client = Client(access)
        answer = client.patch("/api/v1/nodes/n1/status", {"status": {}})
    assert answer.body == NODE and answer.date == 1794873600.0
    head, _, body = server.got[0].partition("\n\n")
    assert head.startswith("PATCH /api/v1/nodes/n1/status HTTP/1.1")
    assert "Authorization: Bearer first-token\r\n" in head + "\r\n" and STRATEGIC in head
    assert json.loads(body) == {"status": {}} and client.requests == 1


def test_a_replaced_token_is_used_for_the_next_request(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        client = Client(access)
        client.get("/api")
        # As the kubelet does it: a new folder, and a link renamed over the old one.
        (tmp_path / "new").write_text("second-token\n")
        os.replace(tmp_path / "new", tmp_path / "token")
        client.get("/api")
    assert "Bearer first-token" in server.got[0] and "Bearer second-token" in server.got[1]


@pytest.mark.parametrize("word", ["two words", "", "line\nHost: evil", "ü" * 20, "x" * 70_000])
def test_a_token_that_would_break_the_header_is_never_sent(tmp_path: Path, word: str) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        (tmp_path / "token").write_text(word)
        with pytest.raises(Refused, match="token"):
            Client(access).get("/api")
        assert server.got == []


def test_a_pipe_in_place_of_the_token_does_not_hang(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (_, access):
        (tmp_path / "token").unlink()
        os.mkfifo(tmp_path / "token")
        with pytest.raises(Refused, match="not a regular file"):
            Client(access).get("/api")


def test_another_authority_is_not_trusted_and_a_replaced_one_is(tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other")
    with bad_server(tmp_path, says(200, NODE)) as (server, access):
        right, file = Path(access.ca.file).read_text(), tmp_path / "ca.crt"
        file.write_text(other.file.read_text())
        client = Client(replace(access, ca=Kept(file=str(file))))
        with pytest.raises(Refused, match="certificate is not accepted"):
            client.get("/api")
        assert server.got == [] or "Bearer" not in "".join(server.got)
        file.write_text(right)
        assert client.get("/api").body == NODE
        file.write_text("")
        with pytest.raises(Refused, match="empty"):
            client.get("/api")


def test_a_certificate_for_another_name_is_refused_unless_the_name_is_given(tmp_path: Path) -> None:
    with bad_server(tmp_path, says(200, NODE)) as (_, access):
        with pytest.raises(Refused, match="certificate is not accepted"):
            Client(replace(access, server_name="elsewhere.example")).get("/api")
        assert Client(replace(access, server_name="127.0.0.1")).get("/api").body == NODE


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (says(200, b"not json"), "not a JSON object"),
        (says(200, [1, 2]), "not a JSON object"),
        (says(200, b"[" * 100_000), "not a JSON object"),
        (says(200, b'{"n": ' + b"9" * 10_000 + b"}"), "not a JSON object"),
        (says(500, b"\xff\xfe"), "HTTP 500"),
        (says(302, {}, "Location: https://127.0.0.1:1/"), "HTTP 302"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}"), "50 more|48 more"),
        (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), "not an answer in HTTP"),
        (sends(b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 500 + b"\r\n{}"), "100 headers"),
        (sends(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 200_000), "header line"),
        (sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n"), "127.0.0.1"),
        (sends(b""), "127.0.0.1"),
    ],
)
def test_what_is_not_an_answer_is_one_clear_line(tmp_path: Path, act: object, expected: str) -> None:
    with bad_server(tmp_path, act) as (_, access), pytest.raises(Refused, match=expected) as refused:  # type: ignore[arg-type]
        Client(access).get("/api")
    assert "\n" not in str(refused.value) and str(refused.value).isprintable() and len(str(refused.value)) < 300
    assert refused.value.later is (refused.value.status != 302)


def test_a_server_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    message = "\x1b[2Jgone\nfake line " + "x" * 5_000
    act = says(403, {"kind": "Status", "message": message, "reason": "Forbidden\x07"})
    with bad_server(tmp_path, act) as (_, access), pytest.raises(Refused) as refused:
        Client(access).get("/api")
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300
    assert refused.value.denied and not refused.value.later and refused.value.reason == "Forbidden\\x07"


def test_a_flood_is_cut(tmp_path: Path) -> None:
    huge = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MOST + 70_000)
    with bad_server(tmp_path, sends(huge)) as (_, access), pytest.raises(Refused, match="more than 4 MB"):
        Client(access).get("/api")


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_server_that_drips_is_left_at_the_deadline(tmp_path: Path, head: bytes) -> None:
    """Each byte comes within the socket's timeout: only the deadline of the whole ends it."""
    with (
        bad_server(tmp_path, drips(head, 0.2)) as (_, access),
        pytest.raises(Refused, match="no whole answer in 1 s"),
    ):
        Client(access, timeout=1.0).get("/api")


@pytest.mark.parametrize(
    ("header", "pause"),
    [("Retry-After: 7", 7.0), ("Retry-After: 999999", 300.0), ("Retry-After: -5", 0.0), ("Retry-After: soon", 0.0)],
)
def test_a_server_may_ask_for_a_pause_but_not_for_ever(tmp_path: Path, header: str, pause: float) -> None:
    act = says(429, {"message": "too many"}, header)
    with bad_server(tmp_path, act) as (_, access), pytest.raises(Refused) as refused:
        Client(access).get("/api")
    assert refused.value.pause == pause and refused.value.later


def test_nobody_there_is_said() -> None:
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1: connection refused") as refused:
        Client(Access(server="https://127.0.0.1:1")).get("/api")
    assert refused.value.later and refused.value.status == 0


@pytest.mark.parametrize(
    "server", ["http://10.0.0.1", "https://", "https://a b", "ftp://x", "https://u:p@x", "https://[::1"]
)
def test_an_address_that_leaks_the_token_is_a_mistake(server: str) -> None:
    with pytest.raises(UserError, match="https"):
        Access(server=server)


def test_a_pod_finds_its_server() -> None:
    found = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "/x")
    assert found.server == "https://[fd00::1]:6443" and found.token.file == "/x/token" and found.ca.file == "/x/ca.crt"
    with pytest.raises(UserError, match="not in a pod"):
        in_cluster({})


def test_pauses_grow_to_a_limit_and_differ() -> None:
    many = [[pausing.failed() for _ in range(12)] for pausing in (Pausing() for _ in range(50))]
    assert len({pauses[0] for pauses in many}) > 40
    assert all(0.5 <= pauses[0] <= 1.0 and LONGEST / 2 <= pauses[11] <= LONGEST for pauses in many)
    pausing = Pausing()
    assert pausing.failed(asked=60.0) >= 60.5
    pausing.worked()
    assert pausing.failed() <= 1.0
