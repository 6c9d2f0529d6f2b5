"""`fleet status`: what is growing however slowly, and a node whose figures no machine could reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fleet.fleets import opened
from tests.fleet.small_fleet import CORES, found, hour, send

from zombiescope.fleet import compaction, store
from zombiescope.fleet.status import SHOWN, status
from zombiescope.fleet.trend import Change
from zombiescope.web.fleet_trends import by_hour

HOURS = 6


@pytest.mark.parametrize(
    ("change", "trend"),
    [
        (Change(stayed=100, came=8), "growing"),  # 8 % more: halves of 100 and 108 nodes look alike
        (Change(stayed=500, came=20, went=3), "growing"),
        (Change(stayed=100, went=9), "shrinking"),
        (Change(stayed=100, came=4, went=5), "steady"),
        (Change(stayed=6), "steady"),
        (Change(stayed=20, came=3), "unknown"),  # too few to say either
        (Change(stayed=2, came=1), "unknown"),
        (Change(stayed=100, cost=0.2, error=0.05), "growing"),  # the same nodes, and each loses more
        (Change(stayed=100, cost=-0.2, error=0.05), "shrinking"),
        (Change(stayed=100, cost=0.1, error=0.05), "steady"),
        (Change(), "unknown"),
    ],
)
def test_trends(change: Change, trend: str) -> None:
    assert change.trend == trend


def _fleet(folder: Path, sick: dict[int, int], more: float = 0.0) -> dict[str, Any]:
    """`sick`: how many nodes from which hour on; each then waits `more` cores more every hour."""
    first = [since for since, many in sick.items() for _ in range(many)]
    for number in range(HOURS):
        for node, since in enumerate([*first, *[HOURS] * 10]):
            its = [found(number, waited_cores=1 + more * number)] if number >= since else []
            send(folder, f"n{node}", number, its)
    return dict(status(opened(folder))["root_causes"][0])


def test_a_slow_rise_is_growing(tmp_path: Path) -> None:
    one = _fleet(tmp_path / "s", {0: 60, 3: 3, 4: 3, 5: 2})
    assert (one["trend"], one["nodes_more"], one["nodes_less"], one["nodes"]) == ("growing", 8, 0, 68)


def test_the_same_nodes_that_lose_more_each_hour_are_growing(tmp_path: Path) -> None:
    assert _fleet(tmp_path / "s", {0: 20}, more=0.02)["trend"] == "growing"


def test_a_fleet_that_stays_as_it_is_is_steady(tmp_path: Path) -> None:
    assert _fleet(tmp_path / "s", {0: 20})["trend"] == "steady"


def test_nodes_that_joined_later_are_no_growth(tmp_path: Path) -> None:
    for number in range(HOURS):
        for node in range(20 if number < 3 else 40):
            send(tmp_path / "s", f"n{node}", number, [found(number)])
    one = status(opened(tmp_path / "s"))["root_causes"][0]
    assert (one["nodes"], one["nodes_more"], one["trend"]) == (40, 0, "steady")


@pytest.mark.parametrize("joined", [False, True])
def test_figures_beyond_a_nodes_cores_and_time_count_for_nobody(tmp_path: Path, joined: bool) -> None:
    folder = tmp_path / "s"
    for node in range(5):
        send(folder, f"n{node}", 0, [found(0)])
    claims: list[dict[str, Any]] = [
        {"sign": "s0", "waited_cores": 3e38},
        {"sign": "s1", "burnt_cores": 3e38, "waited_cores": None},
        {"sign": "s2", "waited_cores": -3e38},
        {"sign": "s3", "started": 0},  # since 1970
        {"sign": "s4", "started": hour(9).start * 1_000_000},  # ends before it starts
        {"sign": "s5", "held_bytes": 1e300, "broken": -1},
        {"sign": "s6", "burnt_cores": CORES + 3.0, "waited_cores": None},
    ]
    liar = send(folder, "liar", 0, [found(0, **it) for it in claims])
    many = send(folder, "many", 0, [found(0, sign="s7", waited_cores=1e4)], cores=2**31 - 1)
    if joined:
        assert compaction.compact(store.opened(str(folder))).parcels == 7
    fleet = opened(folder)
    said = status(fleet)
    roots = {it["sign"]: it for it in said["root_causes"]}
    assert roots["crash_looping_unit"]["core_hours_a_day"] == 5 * 24
    assert not roots.keys() & {"s3", "s4"}
    assert all(roots[it]["core_hours_a_day"] == 0 for it in ("s0", "s1", "s2", "s6"))
    assert roots["s0"]["cost_unknown"] == 0, "what was burnt is known"
    assert roots["s1"]["cost_unknown"] == roots["s6"]["cost_unknown"] == 1
    assert (roots["s5"]["held_bytes"], roots["s5"]["broken"]) == (0, 0)
    assert fleet.refused.keys() == {liar, many}
    for what in ("waited_cores", "burnt_cores", "held_bytes", "broken"):
        assert f"findings: {what} beyond what its cores and the time allow" in fleet.refused[liar]
    assert "findings: 2 rows of other hours" in fleet.refused[liar]
    assert fleet.refused[many].startswith("in part: nodes: cores beyond")
    assert said["refused_nodes"] == 2
    assert sum(by_hour(fleet)["cores"]) <= 5 + 1 + 8192  # s5 is honest but for what it holds; a node without cores


def test_many_threads_may_wait_for_few_cores(tmp_path: Path) -> None:
    """What they wait is kept as it was sent; it costs no more than the node has."""
    send(tmp_path / "s", "busy", 0, [found(0, waited_cores=300.0)])
    fleet = opened(tmp_path / "s")
    assert not fleet.refused and fleet.rows("SELECT waited_cores FROM findings") == [(300.0,)]
    assert status(fleet)["core_hours_a_day"] == CORES * 24


def test_a_node_with_a_thousand_causes_costs_no_more_than_its_cores(tmp_path: Path) -> None:
    send(tmp_path / "s", "honest", 0, [found(0)])
    send(tmp_path / "s", "honest", 1, [found(1), found(1, sign="other", waited_cores=3.0)])
    send(tmp_path / "s", "liar", 0, [found(0, sign=f"claim_{it}", waited_cores=5.0) for it in range(1000)])
    said = status(opened(tmp_path / "s"))
    roots = {it["sign"]: it["core_hours_a_day"] for it in said["root_causes"]}
    a_day = 24 / 2  # of two hours
    assert (roots["crash_looping_unit"], roots["other"]) == (2 * a_day, 3 * a_day)
    assert said["core_hours_a_day"] == pytest.approx((2 + 3 + CORES) * a_day)
    assert len(said["root_causes"]) == SHOWN and said["more_root_causes"] == 1002 - SHOWN
    assert said["root_causes"][0]["sign"] == "other"
