"""A node's hours reach the store once each: whatever the store does, and whenever the shipper is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fleet.fleets import opened as fleet_of
from tests.fleet.hourly import recording

from zombiescope.core import UserError
from zombiescope.fleet import compaction, store
from zombiescope.fleet.hours import INCOMING, Hour
from zombiescope.fleet.shipping import AT_ONCE, Shipped, ship
from zombiescope.fleet.spool import Spool
from zombiescope.recorder.replay import opened

START = 1_794_000_000 // 3600 * 3600
LONG_AFTER = START + 10**6
ROUND = """
import sys, time
from zombiescope.fleet import store
from zombiescope.fleet.shipping import ship
from zombiescope.fleet.spool import Spool
from zombiescope.recorder.replay import opened
folder, spool, to, now = sys.argv[1:]
print("begins", flush=True)
while ship(opened(folder), Spool(spool), store.taking(to), {}, float(now)).more:
    pass
"""


def round_of(folder: Path, to: str, now: float = LONG_AFTER, most: int = 1 << 20) -> Shipped:
    spool = Spool(str(folder.parent / "spool"), most)
    return ship(opened(str(folder)), spool, store.taking(to), {"zone": "a"}, now)


def test_each_hour_is_sent_once(tmp_path: Path) -> None:
    folder, to = recording(tmp_path / "r", START, 5), str(tmp_path / "s")
    assert round_of(folder, to, START + 3600) == Shipped()  # not over for long enough
    first = round_of(folder, to)
    assert (first.made, first.sent, first.waiting, first.more) == (AT_ONCE, AT_ONCE, 0, True)
    second = round_of(folder, to)
    assert (second.made, second.sent, second.more) == (5 - AT_ONCE, 5 - AT_ONCE, False)
    assert round_of(folder, to) == Shipped()
    compaction.compact(store.opened(to))
    rows = fleet_of(to).rows("SELECT zone, count(*), count(DISTINCT ts) FROM node_hours GROUP BY 1")
    assert rows == [("a", 5, 5)]
    spool = tmp_path / "spool"
    assert spool.stat().st_mode & 0o777 == 0o700 and not list(spool.glob("*.parcel"))


def test_hours_are_made_while_the_store_is_away(tmp_path: Path) -> None:
    folder = recording(tmp_path / "r", START, 3)
    (tmp_path / "s").write_text("a file where the store should be")
    for made in (3, 0):
        away = round_of(folder, str(tmp_path / "s"))
        assert (away.made, away.sent, away.waiting) == (made, 0, 3) and "not a directory" in away.why
    (tmp_path / "s").unlink()
    assert [(it.sent, it.waiting, it.why) for it in [round_of(folder, str(tmp_path / "s"))]] == [(3, 0, "")]


def test_what_waits_is_bounded_and_the_oldest_is_given_up(tmp_path: Path) -> None:
    folder = recording(tmp_path / "r", START, 3)
    (tmp_path / "s").write_text("")
    size = len(_parcel(folder))
    away = round_of(folder, str(tmp_path / "s"), most=2 * size + size // 2)
    assert (away.made, away.waiting, away.lost) == (3, 2, 1)
    assert round_of(folder, str(tmp_path / "s"), most=2 * size).made == 0  # what was given up is not made again
    (tmp_path / "s").unlink()
    assert round_of(folder, str(tmp_path / "s")).sent == 2


def _parcel(folder: Path) -> bytes:
    from zombiescope.fleet.hour_parcel import hour_parcel

    return hour_parcel(opened(str(folder)), Hour(START), {"zone": "a"})


def test_marks_go_with_the_hours_of_the_recording(tmp_path: Path) -> None:
    folder, to = recording(tmp_path / "r", START, 2), str(tmp_path / "s")
    assert round_of(folder, to).sent == 2
    spool = Spool(str(tmp_path / "spool"))
    (tmp_path / "spool" / ".0123.part").write_text("half")
    spool.tidy(Hour(START + 3600))
    assert os.listdir(tmp_path / "spool") == [f"{START + 3600}.sent"]


def test_a_spool_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="a symbolic link, which is not followed"):
        Spool(str(tmp_path / "link"))
    if os.geteuid() == 0:
        with pytest.raises(UserError, match="others can write to it"):
            Spool(str(tmp_path / "open"))


def test_killed_at_any_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Killed again and again until it has ended once by itself. `make test-long` kills a hundred times."""
    kills = int(os.environ.get("ZOMBIESCOPE_KILLS", "3"))
    chance = random.Random(7)
    ended, killed, number = 0, 0, 0
    while killed < kills:
        number += 1
        base = tmp_path / str(number)
        folder = recording(base / "r", START, 4)
        while True:
            command = [sys.executable, "-c", ROUND, str(folder), str(base / "spool"), str(base / "s"), str(LONG_AFTER)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None and process.stdout.readline() == b"begins\n"
                time.sleep(chance.uniform(0.0, 1.0))
                process.send_signal(signal.SIGKILL)
                if process.wait() == 0:
                    ended += 1
                    break
                killed += 1
        kept = store.opened(str(base / "s"))
        keys = sorted(kept.keys(INCOMING))
        assert len(keys) == 4 and len(set(keys)) == 4
        assert compaction.compact(kept).parcels == 4
        rows = fleet_of(base / "s").rows("SELECT count(*), count(DISTINCT ts) FROM node_hours")
        assert rows == [(4, 4)]
    assert ended >= 1
