"""The incident among 192 cores: named whole, and without a piece of its evidence never blamed on anything else."""

from __future__ import annotations

import time

import pytest
from tests.controls.incident import BURSTS, CORE, HOURS, PIECES, UNIT, incident
from tests.diagnosis.test_incident import STAGES

from zombiescope.core import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.outputs._story import NOT_SURE, headline

TRUE = {
    ("crash_looping_unit", UNIT),
    ("zombie_cgroups", "controller:memory"),
    ("cgroup_walker", "process:kubelet[812]"),
    ("saturated_core", f"cpu:{CORE}"),
    ("starved_softirq", f"cpu:{CORE}"),
    ("driver_reset", "nic:eth0"),
}


def whole(case: Case) -> None:
    assert [it.sign for it in case.chains[0]] == STAGES
    assert [(it.sign, it.subject) for it in case.root_causes] == [("crash_looping_unit", UNIT)]
    resets = [it for it in case.findings if it.sign == "driver_reset"]
    assert len(resets) == BURSTS and all(case.causes_of(it) for it in resets)


def test_the_root_cause_is_first_and_the_chain_whole() -> None:
    whole(examine(incident(hours=1).timeline()))


@pytest.mark.long
def test_over_twelve_hours() -> None:
    timeline = incident(hours=HOURS).timeline()
    started = time.process_time()
    case = examine(timeline)
    spent = time.process_time() - started
    whole(case)
    print(f"{HOURS} hours of 192 cores examined in {spent:.1f} s of CPU")


@pytest.mark.parametrize("piece", [pytest.param(it, marks=[] if it == "stacks" else pytest.mark.long) for it in PIECES])
def test_without_a_piece_of_evidence_nothing_else_is_blamed(piece: str) -> None:
    case = examine(incident(hours=1, without=[piece]).timeline())
    assert {(it.sign, it.subject) for it in case.root_causes} <= TRUE
    assert {(it.sign, it.subject) for it in case.problems if it.sign != "job_failure"} <= TRUE
    if piece in ("stacks", "core", "starved", "card"):  # the chain is broken there, and the report says so
        assert case.riddles
        assert len(case.chains[0]) < len(STAGES)


@pytest.mark.parametrize(
    "gone", [pytest.param(many, marks=[] if many == 3 else pytest.mark.long) for many in range(2, len(PIECES))]
)
def test_with_its_evidence_removed_from_the_root_on_it_is_not_sure_and_never_wrong(gone: int) -> None:
    """First the unit, then the dying cgroups too, then the stacks that show who walks them, and so on."""
    case = examine(incident(hours=1, without=PIECES[:gone]).timeline())
    left = {(it.sign, it.subject) for it in case.problems if it.sign != "job_failure"}
    assert left <= TRUE, "what is still seen is said, and nothing else"
    if gone >= PIECES.index("stacks") + 1:  # nobody is seen who could have done it
        assert not case.root_causes
        assert not case.problems or case.riddles
        assert headline(case)[0] == NOT_SURE or "no cause found" in headline(case)[1]
