"""unused_agent: said only with every sign of use looked at, and of one that does harm."""

from __future__ import annotations

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import crash_looping_unit, unused_agent

ECS = "ecs.service"
WAITS = "activating (auto-restart), NRestarts=9"


def agent(
    uses: float = 0, unseen: float = 0, *, leaks: float = 1, enabled: float = 1, unit: str = ECS
) -> list[Reading]:
    name = f"unit:{unit}"
    signs = {
        f"use:{unit}/file_contains//etc/ecs/ecs.config": "absent: its configuration names a cluster",
        f"use:{unit}/cgroup_exists//ecs/*": "absent: one of its tasks has a cgroup",
    }
    return [
        read("agent_enabled", name, enabled, 0, "enabled by multi-user.target"),
        read("agent_uses", name, uses, 0),
        read("agent_uses_unseen", name, unseen, 0, "not checked: one of its tasks has a cgroup" if unseen else ""),
        read("agent_leaks", name, leaks, 0),
        *(read("agent_use", sign, 0, 0, says) for sign, says in signs.items()),
    ]


def runs(unit: str = ECS, active: float = 1) -> list[Reading]:
    return [read("unit_active", f"unit:{unit}", active, at, "active (running)") for at in (0, 5)]


def restarts(*totals: float, unit: str = ECS, text: str = WAITS) -> list[Reading]:
    """Between two runs a unit is not active."""
    counts = [read("unit_restarts_total", f"unit:{unit}", total, 5.0 * at, text) for at, total in enumerate(totals)]
    return [*counts, *(read("unit_active", f"unit:{unit}", 0, it.at - T0, text) for it in counts)]


def case(readings: list[Reading]) -> Case:
    signs = {"unused_agent": unused_agent, "crash_looping_unit": crash_looping_unit}
    return examine(node(readings), signs=signs, laws={})


def found(readings: list[Reading]) -> list[str]:
    return [it.subject for it in case(readings).findings if it.sign == "unused_agent"]


def test_an_unused_agent_that_loops_is_found_with_every_sign_looked_at() -> None:
    result = case([*agent(), *restarts(10, 400)])
    finding = next(it for it in result.findings if it.sign == "unused_agent")
    assert finding.subject == "unit:ecs.service"
    assert finding.says.startswith(
        "is unused (none of 2 signs of use was found): enabled by multi-user.target, activating (auto-restart)"
    )
    assert [it.text for it in finding.evidence if it.what == "agent_use"] == [
        "absent: one of its tasks has a cgroup",
        "absent: its configuration names a cluster",
    ]


def test_one_that_runs_and_is_known_to_leak_is_found_though_systemd_counts_no_restart() -> None:
    assert found([*agent(), *runs()]) == ["unit:ecs.service"]


@pytest.mark.parametrize(
    "readings",
    [
        [*agent(uses=1), *restarts(10, 400)],
        [*agent(leaks=0), *runs()],
        [*agent(), *runs(active=0)],
        [*agent(), *runs("other.service")],
        [*agent(), *restarts(9, 9, text="active (running)")],
    ],
    ids=["used", "idle and harmless", "stopped", "only enabled", "restarted long ago"],
)
def test_silent(readings: list[Reading]) -> None:
    assert not found(readings)


def test_what_could_not_be_looked_at_is_blind_not_unused() -> None:
    verdict = case([*agent(unseen=1), *restarts(10, 400)]).verdicts[0]
    assert verdict.state == "blind" and "one of its tasks has a cgroup" in verdict.says


def test_whether_it_runs_could_not_be_seen() -> None:
    for readings in (agent(), agent(enabled=0), [read("agent_enabled", "node", 0, 0)]):
        verdict = case(readings).verdicts[0]
        assert verdict.state == "blind" and "which agents run is not known ($ systemctl list-units)" in verdict.says


def test_clear_says_how_many_were_looked_at() -> None:
    verdict = case([*agent(uses=2), *runs()]).verdicts[0]
    assert verdict.state == "clear" and verdict.says == "1 known agents installed, 1 with signs of use"
