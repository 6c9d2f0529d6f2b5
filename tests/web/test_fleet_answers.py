"""What the fleet's page is sent: what the store says, also of hostile nodes, and anew when nodes have sent more."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fleet.fleets import opened
from tests.web import fleet_store
from tests.web.unpacked import Unpacked

from zombiescope.core import UserError
from zombiescope.fleet.flame import flame
from zombiescope.web import fleet_answers
from zombiescope.web.fleet_answers import Answers
from zombiescope.web.fleet_difference import MAGIC as FLAME
from zombiescope.web.fleet_overview import MAGIC as OVERVIEW


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet_store.made(tmp_path_factory.mktemp("fleet") / "store")


@pytest.fixture(scope="module")
def answers(folder: Path) -> Answers:
    return Answers(lambda: opened(folder), "store")


def shown(answers: Answers) -> Unpacked:
    found = answers("overview", {})
    assert found
    return Unpacked(found[1], OVERVIEW)


def said(answers: Answers, name: str, **query: str) -> Any:
    found = answers(name, query)
    assert found and found[0] == "application/json"
    return json.loads(found[1])


def test_each_node_has_its_traits_its_cost_and_its_root_cause(answers: Answers, folder: Path) -> None:
    found, fleet = shown(answers), opened(folder)
    ids, names = found.words("id"), found.words("name")
    assert len(ids) == len(names) == fleet.rows("SELECT count(*) FROM nodes")[0][0]
    place = {name: number for number, name in enumerate(names)}
    zones = next(it for it in found.header["traits"] if it["name"] == "zone")
    for name, zone, cores in fleet.rows("SELECT name, zone, cores FROM nodes WHERE name LIKE 'node-%'"):
        assert zones["values"][found.numbers("trait:zone")[place[name]]] == zone
        assert found.numbers("cores")[place[name]] == cores
    cost = fleet.rows("""
        SELECT n.name, sum(coalesce(waited_cores, 0) + coalesce(burnt_cores, 0))
        FROM findings JOIN nodes n USING (node_id) WHERE role = 'root' AND n.name LIKE 'node-%' GROUP BY 1""")
    a_day = 24 / len(fleet.hours)  # each finding lasts an hour
    for name, cores in cost:
        assert found.numbers("cost")[place[name]] == pytest.approx(cores * a_day, rel=1e-4)
        root = found.header["roots"][found.numbers("worst")[place[name]] - 1]
        assert place[name] in found.numbers(f"root:{found.header['roots'].index(root)}")
    leaker = found.header["units"].index("ecs.service")
    active = fleet.rows("SELECT count(DISTINCT node_id) FROM units WHERE unit = 'ecs.service' AND active")[0][0]
    assert len(found.numbers(f"unit:{leaker}")) == active


def test_silent_nodes_and_those_that_could_not_look_are_not_clear(answers: Answers, folder: Path) -> None:
    found, fleet = shown(answers), opened(folder)
    state = dict(zip(found.words("name"), found.numbers("state").tolist(), strict=True))
    blind = [it[0] for it in fleet.rows("SELECT name FROM nodes WHERE len(blind) > 0")]
    assert blind and all(state[it] > 0 for it in blind)
    assert int(found.numbers("silent").sum()) == found.header["status"]["silent"]


def test_a_node_tells_what_it_sent(answers: Answers) -> None:
    found = shown(answers)
    sick = found.words("id")[int(np.flatnonzero(found.numbers("state") == 2)[0])]
    its = said(answers, "node", id=sick)
    assert its["findings"][0]["role"] == "root" and len(its["hours"]["at"]) == fleet_store.HOURS
    assert its["page"] == "", "nobody said where agents are"
    for odd in ("", "0", "../../x", sick.upper() + "x", "f" * 16):
        with pytest.raises(UserError, match="no such node"):
            answers("node", {"id": odd})


def test_hostile_nodes_are_shown_and_cost_nobody_else(answers: Answers) -> None:
    found = shown(answers)
    names = found.words("name")
    assert fleet_store.MARKUP in names and fleet_store.SHOWN in names and "\n" not in "".join(names)
    for name in (fleet_store.MARKUP, fleet_store.SHOWN):
        its = said(answers, "node", id=found.words("id")[names.index(name)])
        assert its["name"] == name and its["findings"][0]["held_bytes"] is None, "no memory is that large"
    assert 0 <= found.header["status"]["root_causes"][0]["held_bytes"] < 1e13
    assert found.header["status"]["refused_nodes"] == 2


def test_only_signs_of_this_fleet_are_compared(answers: Answers) -> None:
    assert said(answers, "compare", sick="driver_reset")["causes"][0]["factor"] == "unit:ecs.service=active"
    for odd in ("1=1", "nothing_of_ours", "x' OR '1'='1", "node_id > 0"):
        with pytest.raises(UserError, match="no such sign"):
            answers("compare", {"sick": odd})
    assert answers("anything else", {}) is None and answers("../overview", {}) is None


def test_the_flame_graph_has_the_shares_of_both_cohorts(answers: Answers, folder: Path) -> None:
    part = answers("flame", {})
    assert part
    found, told = Unpacked(part[1], FLAME), flame(opened(folder))
    names, label, parent = found.words("names"), found.numbers("label"), found.numbers("parent")
    for one in told["stacks"][:5]:
        leaf = [
            node for node in range(len(label)) if _path(node, names, label, parent) == one["stack"].replace(" ", "_")
        ]
        assert len(leaf) == 1
        for cohort in ("sick", "others"):
            assert found.numbers(cohort)[leaf[0]] == pytest.approx(one[cohort] * 1e6, abs=1)


def _path(node: int, names: list[str], label: Any, parent: Any) -> str:
    path = []
    while node:
        path.append(names[label[node]])
        node = int(parent[node])
    return ";".join(reversed(path))


def test_what_nodes_send_later_is_shown_when_the_page_is_opened_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Answers(lambda: opened(folder), "store")
    before = len(shown(found).words("id"))
    fleet_store.send(folder, "later")
    assert len(shown(found).words("id")) == before, "not at once: each opening reads all manifests"
    monkeypatch.setattr(fleet_answers, "STALE", 0.0)
    assert len(shown(found).words("id")) == before + 1


def test_a_crowd_of_questions_is_refused(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_waiting", threading.Semaphore(0))
    with pytest.raises(UserError, match="too many questions"):
        answers("growth", {})
