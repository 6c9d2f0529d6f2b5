"""cgroup_churn and the law that ties it to the dead: a loop is found, a rollout is not, only a leaky one is blamed."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import cgroup_churn_to_zombie_cgroups as law
from zombiescope.signs import cgroup_churn, zombie_cgroups

FAMILY = "family:/docker/<id>"


def churn(born: list[int], removed: list[int], released: list[int] | None = None) -> list[Reading]:
    """Totals at one look each second."""
    columns = {"cgroup_births_total": born, "cgroup_removals_total": removed, "cgroup_releases_total": released or []}
    return [
        read(what, FAMILY, total, at, "/docker/5f0c")
        for what, totals in columns.items()
        for at, total in enumerate(totals)
    ]


def case(readings: list[Reading]) -> Case:
    signs = {"cgroup_churn": cgroup_churn, "zombie_cgroups": zombie_cgroups}
    unseen = (
        {} if any(it.what == "cgroup_releases_total" for it in readings) else {"cgroup_releases_total": "not allowed"}
    )
    return examine(node(readings, unseen=unseen), signs=signs, laws={"cgroup_churn_to_zombie_cgroups": law})


LOOP = [0, 4, 8, 12, 16, 20, 24]


def test_a_restart_loop_is_found_with_its_pace() -> None:
    (found,) = case(churn(LOOP, LOOP, [0] * 7)).findings
    assert found.sign == "cgroup_churn" and found.subject == FAMILY
    assert "came and went 240 times a minute: 24 made, 24 removed, 24 still held by the kernel (dying)" in found.says
    assert found.evidence[0].text == "/docker/5f0c"


@pytest.mark.parametrize(
    ("born", "removed"),
    [([0, 50, 50, 50], [0, 0, 0, 0]), ([0, 6, 12, 18], [0, 6, 12, 18]), ([0, 0, 0, 0], [0, 40, 40, 40])],
    ids=["a rollout", "a batch of jobs", "a namespace deleted"],
)
def test_silent(born: list[int], removed: list[int]) -> None:
    assert not case(churn(born, removed)).findings


def test_what_leaves_nothing_behind_is_told_only_when_it_is_fast() -> None:
    slow = [total // 2 for total in range(61)]  # thirty a minute
    assert not case(churn(slow, slow, slow)).findings
    assert case(churn(slow, slow, [0] * 61)).findings, "the same, leaving its dead behind"
    fast = [2 * total for total in range(61)]
    assert case(churn(fast, fast, fast)).findings


def test_names_compared_are_not_enough_to_be_clear() -> None:
    verdict = case(churn([0, 1], [0, 1])).verdicts[0]
    assert verdict.state == "blind" and "not allowed; names are compared once a second" in verdict.says
    assert case(churn([0, 1], [0, 1], [0, 0])).verdicts[0].state == "clear"


def test_slow_restarts_over_a_long_time_are_silent() -> None:
    sparse = [read(what, FAMILY, total, 600.0 * total) for what in cgroup_churn.NEEDS for total in range(8)]
    assert not case(sparse).findings


def test_a_leaky_loop_is_blamed_for_the_dead() -> None:
    result = case([*churn(LOOP, LOOP, [0] * 7), *v1([2_000 + total for total in LOOP])])
    (link,) = result.links
    assert [ground.kind for ground in link.grounds] == ["dose"], "both were there first: order is not claimed"
    assert "the kernel still holds 24 of 24 removed; 24 more are dying" in link.grounds[0].says
    assert [finding.sign for finding in result.root_causes] == ["cgroup_churn"]


@pytest.mark.parametrize(("times", "blamed"), [(1.0, True), (0.75, False)])
def test_it_is_blamed_too_while_the_kernel_frees_others(times: float, blamed: bool) -> None:
    loop = [round(total * times) for total in LOOP]
    links = case([*churn(loop, loop, [0] * 7), *v1([2_000.0] * 7)]).links
    says = [it.says for link in links for it in link.grounds]
    assert says == (["the kernel still holds 24 of 24 removed; others were freed meanwhile"] if blamed else [])


def test_a_loop_that_leaves_nothing_behind_is_not_blamed() -> None:
    result = case([*churn(LOOP, LOOP, LOOP), *v1([2_000 + total for total in LOOP])])
    assert not result.links and {finding.sign for finding in result.findings} == {"cgroup_churn", "zombie_cgroups"}
    assert "nothing beyond timing" in result.unexplained[0].candidates[0].why_not


@pytest.mark.parametrize(("grown", "blamed"), [(24, True), (0, False), (500, False)])
def test_without_releases_the_dose_decides(grown: int, blamed: bool) -> None:
    dead = [2_000 + grown * step / 6 for step in range(7)]
    assert bool(case([*churn(LOOP, LOOP), *v1(dead)]).links) == blamed


def test_whose_they_are_is_told_by_name_or_by_the_path() -> None:
    assert case(churn(LOOP, LOOP, [0] * 7)).findings[0].says.endswith(": containers (docker)")
    words = "container ecs-agent, image amazon/amazon-ecs-agent (docker)"
    named = read("container_info", f"cgroup:/docker/{'5f0c' * 16}", 0, 3, words)
    (found,) = case([*churn(LOOP, LOOP, [0] * 7), named]).findings
    assert found.says.endswith(f"(dying); owner: {words}") and named in found.evidence


def test_one_released_that_was_removed_before_is_not_counted_below_zero() -> None:
    assert (
        "24 made, 24 removed, 0 still held by the kernel (dying)"
        in case(churn(LOOP, LOOP, [3, *LOOP[1:-1], 25])).findings[0].says
    )
