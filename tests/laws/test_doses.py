"""More dying cgroups than runs acquit nobody: what leaves several rises together with them."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.signs.test_crash_looping_unit import ECS, case, churn, restarts
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import crash_looping_container_to_zombie_cgroups
from zombiescope.outputs._summary import no_cause, rows
from zombiescope.signs import crash_looping_container, zombie_cgroups

SECONDS = 120
STEADY = [float(second // 3) for second in range(0, SECONDS + 1, 5)]  # restarts: one each three seconds


def leaks(each: float, *, late: bool = False) -> list[Reading]:
    """So many more dying for each restart; `late`: nearly all of them in the last part of the look."""
    grown = [second / 3 * each for second in range(SECONDS + 1)]
    if late:
        grown = [0.0 if second < 100 else grown[-1] * (second - 100) / 20 for second in range(SECONDS + 1)]
    return v1([1_500.0 + it for it in grown])


def linked(found: Case) -> list[str]:
    return [it.law for it in found.links if it.effect.sign == "zombie_cgroups"]


@pytest.mark.parametrize("each", [1.0, 2.26, 3.0, 5.0])
def test_a_loop_that_leaves_several_for_each_run_is_named(each: float) -> None:
    found = case([*restarts(STEADY), *leaks(each)])
    assert linked(found) == ["crash_looping_unit_to_zombie_cgroups"]
    (link,) = (it for it in found.links if it.effect.sign == "zombie_cgroups")
    assert f"40 restarts, {round(40 * each):,} more dying" in link.grounds[0].says
    assert (": 2.3 for each, in all parts of the look" in link.grounds[0].says) == (each == 2.26)


def test_what_came_all_at_once_is_not_its_own_and_it_is_not_ruled_out_either() -> None:
    found = case([*restarts(STEADY), *leaks(3.0, late=True)])
    assert not linked(found)
    (puzzle,) = (it for it in found.unexplained if it.finding.sign == "zombie_cgroups")
    (loop,) = (it for it in puzzle.candidates if it.law == "crash_looping_unit_to_zombie_cgroups")
    assert loop.there and not loop.blind
    assert "there, but not shown to be the cause: crash_looping_unit" in no_cause(puzzle)
    said = dict(rows(found, puzzle.finding))
    assert "nothing shows that it led to this: crash_looping_unit" in said["sure"] and "ruled out" not in said["sure"]


def test_one_that_restarts_removes_several_kinds_of_cgroups() -> None:
    runs = list(range(0, SECONDS + 1, 3))
    kinds = [it for below in ("/agent-<n>", "") for it in churn(ECS, runs, [], below)]
    named = [it for it in kinds if it.what != "cgroup_releases_total"]
    found = case([*named, *v1([1_500.0 + 2.2 * it for it in runs])])
    assert [it for it in linked(found) if it.startswith("cgroup_churn")], "no release could be seen"


def test_containers_that_leave_several_for_each_end() -> None:
    exits = [read("container_exit", "container:ns/pod/web", 1, float(at), "Error") for at in range(0, SECONDS, 3)]
    counter = [read("container_restarts_total", "container:ns/pod/web", at // 3, at) for at in range(0, SECONDS, 5)]
    found = examine(
        node([*exits, *counter, *leaks(2.5)]),
        signs={"crash_looping_container": crash_looping_container, "zombie_cgroups": zombie_cgroups},
        laws={"crash_looping_container_to_zombie_cgroups": crash_looping_container_to_zombie_cgroups},
    )
    assert linked(found) == ["crash_looping_container_to_zombie_cgroups"]


def test_fewer_than_restarts_are_no_dose() -> None:
    assert not linked(case([*restarts(STEADY), *leaks(0.3)]))
