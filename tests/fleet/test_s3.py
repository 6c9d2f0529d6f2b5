"""The fleet's store on a real S3: conditional creation, two compactors, and all that a store may do to a shipper."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet import s3
from tests.fleet.hourly import recording
from tests.fleet.test_shipping import LONG_AFTER, ROUND, START

from zombiescope.core import UserError
from zombiescope.fleet import compaction, reading, store
from zombiescope.fleet.hours import INCOMING, MANIFESTS
from zombiescope.fleet.retention import Keeping, tidy
from zombiescope.fleet.shipping import Shipped, ship
from zombiescope.fleet.spool import Spool
from zombiescope.recorder.replay import opened

pytestmark = pytest.mark.skipif(s3.weed() is None, reason="this machine cannot: SeaweedFS is not here: make peers")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3.serving(tmp_path_factory.mktemp("s3")) as found:
        s3.make_bucket(found, "fleet")
        yield found


@pytest.fixture
def url(port: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.variables(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://fleet/{request.node.name}"


def sent(folder: Path, to: str) -> Shipped:
    spool = Spool(str(folder.parent / "spool"))
    return ship(opened(str(folder)), spool, store.taking(to), {"zone": "a"}, LONG_AFTER)


def test_an_object_is_created_once_and_listed_and_removed(url: str) -> None:
    kept = store.opened(url)
    assert [kept.create("a/b", it) for it in (b"one", b"two")] == [True, False]
    assert kept.read("a/b") == b"one" and kept.has("a/b") and not kept.has("a/c")
    ((key, at),) = kept.listed("a")
    assert key == "a/b" and abs(at - time.time()) < 60
    kept.remove("a/b")
    kept.remove("a/b")
    assert not kept.has("a/b")
    with pytest.raises(store.Missing):
        kept.read("a/b")


def test_from_a_node_to_an_answer(url: str, tmp_path: Path) -> None:
    folder = recording(tmp_path / "r", START, 3)
    assert (sent(folder, url).sent, sent(folder, url)) == (3, Shipped())
    assert compaction.compact(store.opened(url)).parcels == 3
    assert reading.opened(store.opened(url), 24.0).rows("SELECT zone, count(*) FROM node_hours GROUP BY 1") == [
        ("a", 3)
    ]
    forever = Keeping(summary=1e11, detail=1e11)
    assert tidy(store.opened(url), LONG_AFTER, forever).parcels == 3


def test_two_compactors_at_once_double_nothing(url: str, tmp_path: Path, port: int) -> None:
    for number in range(6):
        folder = recording(tmp_path / str(number) / "r", START, 3, node=f"n{number}")
        assert sent(folder, url).sent == 3
    command = [sys.executable, "-m", "zombiescope", "fleet", "compact", "--store", url]
    environment = os.environ | s3.variables(port)
    several = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [it.wait(120) for it in several] == [0, 0, 0]
    fleet = reading.opened(store.opened(url), 24.0)
    assert fleet.rows("SELECT count(*), count(DISTINCT (node_id, ts)) FROM node_hours") == [(18, 18)]


def test_a_store_that_fails_costs_nothing_but_time(
    url: str, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are cut, refused with 500, or slow."""
    modes = ("cut", "500", "slow", "500", "cut", "pass")
    seen: list[str] = []

    def how(number: int) -> str:
        seen.append(modes[number % len(modes)])
        return seen[-1]

    folder = recording(tmp_path / "r", START, 6)
    with s3.failing(port, how) as before:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{before}")
        for _ in range(20):
            done = sent(folder, url)
            if not done.more and not done.waiting:
                break
    assert not done.waiting and set(seen) >= {"cut", "500", "slow"}
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
    kept = store.opened(url)
    assert len(list(kept.keys(INCOMING))) == 6 and compaction.compact(kept).refused == 0
    assert reading.opened(kept, 24.0).rows("SELECT count(*) FROM node_hours") == [(6,)]


def test_without_the_right_key_hours_wait(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording(tmp_path / "r", START, 2)
    with monkeypatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "another")
        done = sent(folder, url)
        assert (done.sent, done.waiting) == (0, 2) and done.why and "\n" not in done.why
        with pytest.raises(UserError):
            list(store.opened(url).keys(MANIFESTS))
    assert sent(folder, url).sent == 2


def test_killed_at_any_moment_nothing_is_lost_or_doubled(url: str, tmp_path: Path, port: int) -> None:
    kills = int(os.environ.get("ZOMBIESCOPE_KILLS", "3"))
    chance, killed, number = random.Random(11), 0, 0
    while killed < kills:
        number += 1
        base, to = tmp_path / str(number), f"{url}/{number}"
        command = [
            sys.executable,
            "-c",
            ROUND,
            str(recording(base / "r", START, 4)),
            str(base / "spool"),
            to,
            str(LONG_AFTER),
        ]
        while True:
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | s3.variables(port)) as process:
                assert process.stdout is not None and process.stdout.readline() == b"begins\n"
                time.sleep(chance.uniform(0.0, 1.2))
                process.kill()
                if process.wait() == 0:
                    break
                killed += 1
        kept = store.opened(to)
        assert len(list(kept.keys(INCOMING))) == 4 and compaction.compact(kept).parcels == 4
        assert reading.opened(kept, 24.0).rows("SELECT count(*), count(DISTINCT ts) FROM node_hours") == [(4, 4)]
