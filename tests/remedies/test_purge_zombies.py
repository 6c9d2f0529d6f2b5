"""purge_zombies: for dying memory cgroups alone, safe as a whole, with each step that disrupts marked."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plan_for

DYING = read("cgroups_dying", "controller:memory", 68_680, 0.0)


@pytest.mark.parametrize("controllers", ["memory", "cpu,memory"])
def test_the_first_three_steps_are_safe(controllers: str) -> None:
    plan = plan_for(finding("zombie_cgroups", f"controller:{controllers}", DYING), "purge_zombies", node([]))
    assert plan is not None and plan.risk == "safe" and plan.proof == ("zombie_cgroups",)
    assert [plan.risk_of(step) for step in plan.steps] == ["safe"] * 3 + ["disruptive"] * 3
    assert all(step.argv[1] == "-I" and not step.unit and not step.keeps for step in plan.steps)


@pytest.mark.parametrize("controllers", ["cpu", "cpuset", "memoryless"])
def test_other_controllers_have_nothing_to_drop(controllers: str) -> None:
    found = finding("zombie_cgroups", f"controller:{controllers}", DYING)
    assert plan_for(found, "purge_zombies", node([])) is None
