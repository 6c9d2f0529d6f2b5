"""Does reclaim explain throttling? Answered on recordings where it does, does not, and cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
from tests.nodes import cores, node
from tests.signs.test_direct_reclaim import POD, counter

from zombiescope.core import Answer, Reading
from zombiescope.questions.reclaim_explains_throttling import answer

OTHER = "cgroup:/kubepods/pod2"
# Two minutes of intervals of two seconds: reclaim comes and goes at odd times.
RECLAIM = [1.0 if place % 11 in (2, 3, 4, 7) else 0.0 for place in range(60)]


def recorded(
    throttled: list[float], stalled: list[float], *, hits: float = 5_000, subject: str = POD, own: bool = False
) -> list[Reading]:
    waiting = (
        ("cgroup_memory_stall_seconds_total", subject) if own else ("pressure_memory_waiting_seconds_total", "node")
    )
    return [
        *counter("cgroup_throttled_seconds_total", throttled, subject, every=2.0),
        *counter(waiting[0], stalled, waiting[1], every=2.0),
        *counter("cgroup_limit_hits_total", [hits] * (len(throttled) * 2 // 5), subject, every=5.0),
        *counter("vmstat_allocstall_total", [0.0] * len(throttled), every=2.0),
    ]


def asked(*parts: list[Reading]) -> Answer:
    return answer(node([it for part in parts for it in part]))


def test_tied_together_it_is_supported_with_figures() -> None:
    found = asked(recorded([0.5 * it + 0.01 for it in RECLAIM], [0.4 * it for it in RECLAIM]))
    assert found.state == "supported"
    assert "/kubepods/pod1: throttled 0.51 s a second with reclaim and 0.01 without" in found.says
    assert "23 of 60 intervals with reclaim" in found.says and "hit its memory limit" in found.says
    assert {it.what for it in found.evidence} == {
        "cgroup_throttled_seconds_total",
        "pressure_memory_waiting_seconds_total",
    }


def test_a_node_of_many_cores_does_not_hide_it() -> None:
    """One cgroup of 96 busy cores waits: the node's pressure is a hundredth of it."""
    busy = cores({cpu: [{"user": 0.95}] * 60 for cpu in range(96)}, every=2.0)
    found = asked(recorded([0.5 * it for it in RECLAIM], [0.4 / 96 * it for it in RECLAIM]), busy)
    assert found.state == "supported"


def test_a_cgroup_s_own_pressure_is_preferred() -> None:
    found = asked(recorded([0.5 * it for it in RECLAIM], [0.4 * it for it in RECLAIM], own=True))
    assert found.state == "supported" and "by its own pressure" in found.says


def test_throttling_without_any_reclaim_is_refuted_even_in_a_short_recording() -> None:
    found = asked(recorded([0.8] * 5, [0.0] * 5, hits=0))
    assert found.state == "refuted" and "throttled for 8.0 s and never reclaimed" in found.says and found.evidence


def test_somebody_else_s_reclaim_explains_nothing() -> None:
    """Others wait for memory at the very times it is throttled, but it never runs into its own limit."""
    found = asked(recorded([0.5 * it for it in RECLAIM], [0.4 * it for it in RECLAIM], hits=0))
    assert found.state == "refuted" and "never reclaimed" in found.says


def test_reclaim_and_throttling_that_go_their_own_ways() -> None:
    found = asked(recorded([0.5] * 60, [0.4 * it for it in RECLAIM]))
    assert found.state == "refuted" and "62 % of 60.0 s of throttling came without reclaim" in found.says


def test_both_all_the_time_leave_nothing_to_compare() -> None:
    found = asked(recorded([0.5] * 60, [0.4] * 60))
    assert found.state == "cannot tell" and "60 of 60 intervals with reclaim" in found.says


def test_no_throttling_is_nothing_to_explain() -> None:
    found = asked(recorded([0.001] * 60, [0.4 * it for it in RECLAIM]))
    assert found.state == "cannot tell" and "nothing to explain" in found.says


@pytest.mark.parametrize("missing", ["cgroup_throttled_seconds_total", "pressure_memory_waiting_seconds_total"])
def test_blind(missing: str) -> None:
    readings = [it for it in recorded([0.5] * 60, [0.4] * 60) if it.what != missing]
    assert asked(readings).state == "cannot tell" and "was not sampled" in asked(readings).says


def test_the_larger_part_of_the_throttling_decides() -> None:
    tied = recorded([0.9 * it for it in RECLAIM], [0.4 * it for it in RECLAIM])
    alone = counter("cgroup_throttled_seconds_total", [0.1] * 60, OTHER, every=2.0)
    assert asked(tied, alone).state == "supported"
    busier = counter("cgroup_throttled_seconds_total", [0.9] * 60, OTHER, every=2.0)
    assert asked(tied, busier).state == "refuted"


def test_chance_alone_is_hardly_ever_supported() -> None:
    """Two series that come and go in spells of their own, a hundred times."""
    supported = 0
    for seed in range(100):
        dice = np.random.default_rng(seed)
        throttled, stalled = (np.repeat(dice.random(15) < 0.3, 4).astype(float) for _ in range(2))
        found = asked(recorded((0.5 * throttled + 0.01).tolist(), (0.4 * stalled).tolist()))
        supported += found.state == "supported"
    assert supported <= 5
