"""thaw: writes to the frozen cgroup alone, only where disruption is allowed, and what it wrote is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nodes import T0, node
from tests.remedies.planned import finding, plan_for, to_nobody
from tests.treatment.killed_at_a_step import MACHINE

from zombiescope.core import Plan, Reading
from zombiescope.treatment.apply import apply, undo
from zombiescope.treatment.ledger import Ledger


def planned(source: str, subject: str = "cgroup:/kubepods/pod7") -> Plan:
    frozen = Reading(what="cgroup_frozen", subject=subject, value=1.0, at=T0, source=source, text="")
    plan = plan_for(finding("frozen_cgroup", subject, frozen), "thaw", node([frozen]))
    assert plan is not None and plan.proof == ("frozen_cgroup",)
    return plan


@pytest.mark.parametrize(
    ("read", "written", "frozen", "thawed"),
    [("cgroup.events", "cgroup.freeze", "1\n", "0"), ("freezer.state", "freezer.state", "FROZEN\n", "THAWED")],
)
def test_it_is_thawed_where_it_was_frozen_and_frozen_again_on_undo(
    tmp_path: Path, read: str, written: str, frozen: str, thawed: str
) -> None:
    setting, ledger = tmp_path / written, Ledger(str(tmp_path / "ledger"))
    setting.write_text(frozen)
    plan = planned(f"{tmp_path}/{read}")
    assert plan.risk == "disruptive" and not plan.steps[0].argv and "/kubepods/pod7" in plan.steps[0].says
    fix = apply(plan, MACHINE, ledger, to_nobody, disruptive=True)
    assert setting.read_text() == thawed and {it.name for it in tmp_path.iterdir()} == {"ledger", written}
    undo(fix.id, MACHINE, ledger, to_nobody)
    assert setting.read_text() == frozen


def test_a_task_that_may_not_be_oom_killed_is_in_no_frozen_cgroup() -> None:
    plan = planned("/proc/7/wchan", "process:trainer[7]")
    assert plan.risk == "safe" and [it.argv for it in plan.steps] == [()] and "memory.oom_control" in plan.steps[0].says
