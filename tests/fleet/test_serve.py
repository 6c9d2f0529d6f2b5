"""The receiver, as a user starts it: it takes parcels from those who have the token, whole or not at all."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.running import running
from tests.conftest import COMMAND
from tests.fleet.fleets import opened
from tests.fleet.hourly import recording
from tests.waiting import until

from zombiescope.__main__ import main
from zombiescope.core import UserError
from zombiescope.fleet import store
from zombiescope.fleet.hour_parcel import hour_parcel
from zombiescope.fleet.hours import INCOMING, SECONDS, Hour, hour_of, parcel_key
from zombiescope.fleet.parcel import MOST_PARCEL
from zombiescope.fleet.store import Unwanted
from zombiescope.recorder.replay import opened as replayed
from zombiescope.web.receiver import refused

TOKEN = "a-word-of-sixteen-letters-or-more"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Its address."""
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    command = [str(COMMAND), "fleet", "serve", "--store", str(folder / "s"), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen([*command, "--token-file", str(token)], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert found, said
            yield found[0]
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def hour() -> Hour:
    """One that is over for long."""
    return Hour(hour_of(time.time()).start - 3 * SECONDS)


@pytest.fixture
def parcel(tmp_path: Path, hour: Hour) -> bytes:
    return hour_parcel(replayed(str(recording(tmp_path / "r", hour.start, 1))), hour, {})


def test_a_parcel_is_taken_once(tmp_path: Path, hour: Hour, parcel: bytes) -> None:
    key = parcel_key(hour, 7)
    with serving(tmp_path) as url:
        kept = store.taking(url, TOKEN)
        assert not kept.has(key)
        assert [kept.create(key, parcel) for _ in range(2)] == [True, False]
        assert kept.has(key)
        stranger = store.taking(url, "another-word-of-some-letters")
        with pytest.raises(UserError, match="401: a token is needed") as error:
            stranger.create(key, parcel)
        assert not isinstance(error.value, Unwanted)  # a token can be put right: nothing is given up
        for content, why in (
            (b"garbage", "not a parcel"),
            (parcel[:-9], "cut short"),
            (b"x" * (MOST_PARCEL + 9), "larger"),
        ):
            with pytest.raises(Unwanted, match=why):
                kept.create(parcel_key(hour, 8), content)
        for odd in (parcel_key(Hour(hour.start + 10**9), 7), f"{INCOMING}/../../x.parcel", "manifests/v1/x", "x"):
            with pytest.raises(Unwanted, match=r"key of a parcel|clock"):
                kept.create(odd, parcel)
    assert list(store.opened(str(tmp_path / "s")).keys(INCOMING)) == [key]
    assert (tmp_path / "s" / key).read_bytes() == parcel


def test_a_client_that_never_ends_holds_up_nobody(tmp_path: Path, hour: Hour, parcel: bytes) -> None:
    with serving(tmp_path) as url:
        port = int(url.rpartition(":")[2])
        lines = (
            f"PUT /{parcel_key(hour, 9)} HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {TOKEN}",
            "Content-Length: 9999",
        )
        head = "".join(f"{it}\r\n" for it in (*lines, ""))
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        try:
            for one in slow:
                one.sendall(head.encode() + b"x")
            assert store.taking(url, TOKEN).create(parcel_key(hour, 7), parcel)
        finally:
            for one in slow:
                one.close()
        assert store.taking(url, TOKEN).create(parcel_key(hour, 8), parcel)
        assert not store.taking(url, TOKEN).has(parcel_key(hour, 9))


def test_it_compacts_what_has_come(tmp_path: Path, hour: Hour, parcel: bytes) -> None:
    with serving(tmp_path, "--compact-every", "1s") as url:
        assert store.taking(url, TOKEN).create(parcel_key(hour, 7), parcel)
        until(lambda: list((tmp_path / "s" / "manifests").rglob("*.json")))
    assert opened(tmp_path / "s").rows("SELECT name FROM nodes") == [("n",)]


def test_beyond_loopback_it_wants_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "serve", "--store", str(tmp_path), "--listen", "0.0.0.0:0"]) == 2
    assert "give --token-file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "key",
    ["", "incoming/v1", "incoming/v1/date=2026-13-01/hour=00/0000000000000007.parcel", "a/../b", "\0", "x" * 5000],
)
def test_keys_of_others(key: str) -> None:
    assert refused(key, time.time()) == "not the key of a parcel"


def test_an_agent_ships_what_it_has_and_gives_it_to_those_who_ask(tmp_path: Path, hour: Hour) -> None:
    """Two hours of an earlier run: one receiver gets them by themselves, and `fleet gather` asks for them."""
    folder = recording(tmp_path / "r", hour.start - SECONDS, 2)
    (tmp_path / "word").write_text(TOKEN)
    (tmp_path / "word").chmod(0o600)
    with serving(tmp_path, "--compact-every", "0") as url:
        options = (
            "--ship",
            url,
            "--ship-token-file",
            str(tmp_path / "word"),
            "--ship-labels",
            "zone=b, pool=train",
            "--open-loopback",
        )

        with running(folder, *options) as agent:
            agent.until(lambda: b'hours_shipped_total{result="sent"} 2' in agent.get("/metrics"), 90)
            asked = f"http://127.0.0.1:{agent.port}"
            shown = agent.get(f"/page/bundle?from={hour.start}&to={hour.start + 600}")
            assert len(shown) > 1000  # what is settled is shown too, within the memory that a question may take
            assert main(["fleet", "gather", "--store", str(tmp_path / "t"), asked]) == 0
    assert main(["fleet", "compact", "--store", str(tmp_path / "s")]) == 0
    for name in ("s", "t"):
        # The kernel's log goes back ten minutes: just after the hour the agent speaks of the one before, too.
        asked = "SELECT name, zone, labels['pool'], count(*) FROM node_hours WHERE epoch(ts) <= {} GROUP BY ALL"
        assert opened(tmp_path / name).rows(asked.format(hour.start)) == [(os.uname().nodename, "b", "train", 2)]
