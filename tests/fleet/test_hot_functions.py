"""Hot functions stand beside the causes: named when sick nodes have them, and silent otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.fleets import answered, made, opened
from tests.fleet.parcels import keys_of, node_in

from zombiescope.fleet.compare import compare
from zombiescope.fleet.parcel import opened as parcel
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.simulated.fleet import simulate
from zombiescope.fleet.store import Folder

WALK = "function:mem_cgroup_nr_lru_pages=hot"  # planted on every sick node


@pytest.mark.parametrize("seed", range(2))
def test_the_planted_function_is_named_and_accuses_nobody(tmp_path: Path, seed: int) -> None:
    truth, said = answered(tmp_path, "incident", 500, 2, seed)
    first = said["hot_functions"][0]
    assert first["factor"] == WALK and len(said["hot_functions"]) == 1
    assert first["sick_with"] > 0.9 * said["sick"] > 10 * first["healthy_with"]
    assert first["odds_ratio"][0] > 10 and "mem_cgroup_nr_lru_pages" in first["says"]
    # It follows sickness more closely than its cause does, and still takes nothing from it.
    assert [it["factor"] for it in said["causes"]] == truth["causes"]
    assert not any("function:" in it for cause in said["causes"] for it in cause["explains_away"])


def test_a_cohort_that_has_nothing_to_do_with_it_has_none(tmp_path: Path) -> None:
    where, _ = made(str(tmp_path), "incident", 500, 2, 0)
    assert compare(opened(where), "labels['pool'] = 'batch'")["hot_functions"] == []


def test_nodes_without_samples_are_neither_hot_nor_cold(tmp_path: Path) -> None:
    simulate(str(tmp_path / "all"), 150, 1, 2, "incident", every=600, parcels=True)
    every, some = Folder(str(tmp_path / "all")), Folder(str(tmp_path / "some"), durable=False)
    for key in keys_of(every):
        tables = parcel(every.read(key))
        if node_in(key) % 2:
            del tables["functions"]
        some.create(key, packed(tables))
    whole, half = (compare(opened(it.folder)) for it in (every, some))
    assert half["causes"] == whole["causes"]
    counts = [it["hot_functions"][0]["sick_with"] + it["hot_functions"][0]["sick_without"] for it in (whole, half)]
    assert counts[0] == whole["sick"] and 0 < counts[1] < 0.8 * counts[0]
