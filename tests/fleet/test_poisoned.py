"""Nodes that send damaged parcels, among honest ones: nothing of these is lost or doubled, and every question answers.

Some dozens here; a hundred thousand with ZOMBIESCOPE_FUZZ=100000, in half an hour of CPU time.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.fleet.fleets import opened
from tests.fleet.parcels import HOUR, keys_of, mutated, node_in
from tests.fuzzing import damaged

from zombiescope.core import UserError
from zombiescope.fleet import manifest
from zombiescope.fleet.compaction import compact
from zombiescope.fleet.compare import compare
from zombiescope.fleet.flame import flame
from zombiescope.fleet.hours import parcel_key
from zombiescope.fleet.leaks import leaks
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.schemas import NAMES_ONCE, TABLES
from zombiescope.fleet.simulated.fleet import simulate
from zombiescope.fleet.status import status
from zombiescope.fleet.store import Folder

MUTATED = int(os.environ.get("ZOMBIESCOPE_FUZZ", "60"))
AT_ONCE = min(MUTATED, 500)  # in one store
FIRST = 1 << 40  # id of the first damaged node: no honest one has a small id


def _rows(fleet: Fleet, honest: list[int]) -> dict[str, list[str]]:
    """All that honest nodes have sent, and the names that are kept once for all."""
    found = {}
    for name in TABLES:
        view = "node_hours" if name == "nodes" else name
        if name in NAMES_ONCE:
            rows = fleet.rows(f"SELECT DISTINCT * EXCLUDE (node_id) FROM {view}")
        else:
            rows = fleet.rows(f"SELECT * FROM {view} WHERE node_id IN ({', '.join(map(str, honest))})")
        found[name] = sorted(map(repr, rows))
    return found


def _asked(fleet: Fleet) -> int:
    """How many questions were answered; what is refused has its one line."""
    answered = 0
    for question in (status, compare, leaks, flame):
        try:
            question(fleet)
            answered += 1
        except UserError:
            continue
    return answered


def _one(content: bytes, draw: random.Random) -> bytes:
    """Mostly damaged inside of tables; a few as a broken disk or a cut connection would."""
    return mutated(content, draw) if draw.random() < 0.95 else damaged(content, draw, lambda *_: None)


@pytest.mark.parametrize("number", range(-(-MUTATED // AT_ONCE)))
def test_damaged_parcels_cost_their_own_rows(tmp_path: Path, number: int) -> None:
    simulate(str(tmp_path / "good"), 8, 1, 5, "incident", every=600, parcels=True)
    good, mixed = Folder(str(tmp_path / "good")), Folder(str(tmp_path / "mixed"), durable=False)
    keys = keys_of(good)
    honest = [node_in(key) for key in keys]
    parcels = [good.read(key) for key in keys]
    draw = random.Random(f"poisoned {number}")
    for key, content in zip(keys, parcels, strict=True):
        mixed.create(key, content)
    sick = [FIRST + it for it in range(AT_ONCE)]
    for node in sick:
        mixed.create(parcel_key(HOUR, node), _one(draw.choice(parcels), draw))

    compact(good)
    assert compact(mixed).hours == 1 and compact(mixed).hours == 0
    told = manifest.all_of(mixed)[HOUR]
    assert told.nodes == {*honest, *sick} and not told.refused.keys() & set(honest)

    expected, fleet = _rows(opened(good.folder), honest), opened(mixed.folder)
    found = _rows(fleet, honest)
    for name in TABLES:
        if name in NAMES_ONCE:  # an honest name is there, whoever else sent it; what has a wrong id is not
            assert set(expected[name]) <= set(found[name])
        else:
            assert expected[name] == found[name], name
    kept = {it[0] for it in fleet.rows("SELECT node_id FROM nodes")}
    assert kept <= {*honest, *sick} and {*sick} - kept <= told.refused.keys()
    for name, shape in TABLES.items():
        view = "node_hours" if name == "nodes" else name
        if name not in NAMES_ONCE:
            most = fleet.rows(
                f"SELECT coalesce(max(many), 0) FROM (SELECT count(*) AS many FROM {view} GROUP BY node_id)"
            )
            assert most[0][0] <= shape.most
    assert _asked(fleet) >= 2
