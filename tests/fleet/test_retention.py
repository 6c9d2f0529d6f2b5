"""What is too old goes in two steps, so that no reader meets a file that is missing; what is named stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fleet.fleets import opened

from zombiescope.fleet import manifest, store
from zombiescope.fleet.hours import INCOMING, MANIFESTS, parcel_key
from zombiescope.fleet.retention import DAY, GRACE, Keeping, tidy
from zombiescope.fleet.schemas import TABLES, VERSION
from zombiescope.fleet.simulated.fleet import simulate


@pytest.fixture
def kept(tmp_path: Path) -> store.Store:
    simulate(str(tmp_path / "s"), 6, 3, 1, "incident", every=300)
    return store.opened(str(tmp_path / "s"))


def aged(kept: store.Store, seconds: float) -> None:
    """As if everything had been written so long ago."""
    assert isinstance(kept, store.Folder)
    for below in (VERSION, MANIFESTS, INCOMING):
        for key in kept.keys(below):
            there = os.stat(kept.path(key))
            os.utime(kept.path(key), (there.st_atime, there.st_mtime - seconds))


def named(kept: store.Store) -> set[str]:
    return {key for one in manifest.all_of(kept).values() for keys in one.files.values() for key in keys}


def tables(kept: store.Store) -> set[str]:
    return {key.split("/")[1] for key in kept.keys(VERSION)}


def test_detail_goes_before_summaries_and_summaries_at_last(kept: store.Store) -> None:
    hours = manifest.all_of(kept)
    end = max(hours).end
    detail = {name for name, table in TABLES.items() if table.tier == "detail"} & tables(kept)
    assert detail and tables(kept) - detail
    assert tidy(kept, end + DAY).tables == 0
    now = end + 31 * DAY
    aged(kept, (os.stat(kept.path(next(iter(named(kept))))).st_mtime - end))  # written when the hours ended
    done = tidy(kept, now)
    assert done.tables == len(hours) * len(detail) and done.files == 0  # a reader may still have the manifest before
    assert named(kept) and not any(key.split("/")[1] in detail for key in named(kept))
    assert detail <= tables(kept)
    later = os.stat(
        kept.path(f"{MANIFESTS}/{max(hours).part}/{manifest.all_of(kept)[max(hours)].number:06d}.json")
    ).st_mtime
    assert tidy(kept, later + GRACE + 60).files > 0
    assert not tables(kept) & detail and named(kept) == set(kept.keys(VERSION))
    assert opened(str(kept.url.removeprefix("file://"))).rows("SELECT count(*) FROM nodes")[0][0] == 6


def test_an_hour_that_is_over_leaves_nothing(kept: store.Store) -> None:
    end = max(manifest.all_of(kept)).end
    keeping = Keeping(summary=DAY, detail=DAY, parcels=0)
    for _ in range(4):  # no longer named; then the files; then the manifests
        tidy(kept, max(end, 4e9), keeping)
        aged(kept, 1e9)
    assert not [*kept.keys(VERSION), *kept.keys(MANIFESTS)]


def test_files_that_no_manifest_names_go_when_nobody_can_be_writing_them(kept: store.Store) -> None:
    key = next(iter(named(kept)))
    orphan = key.rpartition("/")[0] + "/deadbeef.parquet"
    kept.create(orphan, b"x")
    written = os.stat(kept.path(orphan)).st_mtime
    keeping = Keeping(summary=1e10, detail=1e10)
    assert tidy(kept, written + GRACE / 2, keeping).files == 0 and kept.has(orphan)
    assert tidy(kept, written + GRACE + 60, keeping).files == 1 and not kept.has(orphan)
    assert named(kept) == set(kept.keys(VERSION))


def test_only_parcels_that_were_joined_are_removed(kept: store.Store) -> None:
    known = manifest.all_of(kept)
    hour = min(known)
    joined, waiting = parcel_key(hour, min(known[hour].nodes)), parcel_key(hour, 12345)
    for key in (joined, waiting):
        kept.create(key, b"x")
    assert tidy(kept, hour.end + DAY).parcels == 0
    assert tidy(kept, hour.end + 3 * DAY).parcels >= 1
    assert kept.has(waiting) and not kept.has(joined)
