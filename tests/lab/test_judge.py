"""The judge of the lab: what counts as the truth told, and what as an innocent accused."""

from __future__ import annotations

from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest

from zombiescope.lab._judge import OF_THE_MACHINE, judge
from zombiescope.lab._scenario import Truth
from zombiescope.members.rooms import healthy, names

TRUTH = Truth(subject=r"unit:\w+", chain=("a", "c"), silent=("innocent",), may_also=(("also", "it is so"),))


def told(*chains: list[str], roots: tuple[str, ...] | None = None, riddles: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `diagnose --format json` says of these chains, each sign of the unit of its name."""
    findings = [{"sign": sign, "subject": f"unit:{sign}"} for chain in chains for sign in chain]
    accused = [chain[0] for chain in chains] if roots is None else roots
    return {
        "root_causes": [{"sign": sign, "subject": f"unit:{sign}"} for sign in accused],
        "chains": [[{"sign": sign, "subject": f"unit:{sign}"} for sign in chain] for chain in chains],
        "findings": findings,
        "links": [
            {"cause": place, "effect": place + 1}
            for place in range(len(findings) - 1)
            if place + 1 not in accumulate(map(len, chains))
        ],
        "unexplained": [
            {"finding": next(place for place, it in enumerate(findings) if it["sign"] == sign)} for sign in riddles
        ],
        "verdicts": [{"sign": "a", "state": "blind", "says": "permission denied"}],
    }


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (told(["a", "b", "c"]), "right"),
        (told(["a", "c"], ["z"]), "wrong accusation"),
        (told(["a", "c"], ["c"]), "right"),  # a stage of its own fault
        (told(["a", "c"], ["also"]), "right"),  # true as well, for a reason that is given
        (told(["a", "b"]), "in the chain"),
        (told(["z"], ["a", "c"]), "wrong accusation"),
        (told(["c"], ["a", "c"]), "in the chain"),
        (told(["stolen_cpu"], ["a", "c"]), "right"),  # by the hypervisor, beside the fault
        (told(["z", "a", "c"]), "wrong accusation"),
        (told(["c", "a", "c"]), "in the chain"),
        (told(["a", "c"], ["innocent"]), "wrong accusation"),
        (told(["z", "c"]), "wrong accusation"),
        (told(["a"], roots=(), riddles=("a",)), "unexplained"),
        (told(), "blind"),
    ],
)
def test_outcomes(said: dict[str, Any], outcome: str) -> None:
    assert judge(TRUTH, said).outcome == outcome


def test_a_cost_that_was_not_measured_is_not_sure_and_no_miss() -> None:
    seen = {"unsure": [{"sign": "a", "subject": "unit:a"}]}
    said = judge(TRUTH, told(["a"], roots=()) | seen)
    assert said.outcome == "not sure" and said.unsure and not said.right
    assert judge(TRUTH, told(["z"]) | seen).outcome == "wrong accusation", "who else is accused is accused wrongly"
    control = judge(Truth(), told() | seen)
    assert control.outcome == "not sure" and "unit:a" in control.why
    assert judge(Truth(), told() | {"unsure": [{"sign": "stolen_cpu", "subject": "cpu:0"}]}).right


def test_what_only_works_beside_a_fault_is_never_rightly_accused() -> None:
    """Another root cause beside the true one may be true as well; the load is known to be innocent."""
    said = told(["a", "c"], ["also"])
    assert judge(TRUTH, said).right and judge(TRUTH, said, beside="process:x").right
    found = judge(TRUTH, said, beside="unit:also")
    assert found.outcome == "wrong accusation" and found.why == "also of unit:also"


@pytest.mark.parametrize(("name", "scenario"), [(name, it) for name, it in healthy("lab").items() if it.TRUTH.root])
def test_one_more_root_cause_of_any_sign_is_a_wrong_accusation(name: str, scenario: ModuleType) -> None:
    """Unless the scenario names it; and who is accused of the fault's own kind must be the one who did it."""
    truth: Truth = scenario.TRUTH
    named = {sign for it in (truth, *truth.also) for sign in (*it.chain, *it.harmless, *dict(it.may_also))}
    for sign in names("signs"):
        said = told() | {"root_causes": [{"sign": sign, "subject": "somebody:else"}], "unexplained": [], "noted": []}
        wrong = judge(truth, said).outcome == "wrong accusation"
        assert wrong or sign in named or sign in OF_THE_MACHINE, sign
        if sign == truth.root and truth.subject and not truth.noted:
            assert wrong, f"{name}: {sign} of somebody else"


def test_each_reason_is_a_sentence() -> None:
    for name, scenario in healthy("lab").items():
        for it in (scenario.TRUTH, *scenario.TRUTH.also):
            for sign, why in it.may_also:
                assert sign in names("signs") and len(why.split()) > 3, name


def test_beside_a_load_no_core_need_be_full_of_the_kernel_s_work() -> None:
    """Where it was found all the same, it must be in the chain."""
    truth = Truth(chain=("a", "saturated_core", "c"))
    assert judge(truth, told(["a", "c"]), beside="x").right
    assert judge(truth, told(["a", "c"])).outcome == "in the chain"
    assert judge(truth, told(["a", "c"], ["saturated_core"], roots=("a",)), beside="x").outcome == "in the chain"
    assert judge(truth, told(["a", "b"]), beside="x").outcome == "in the chain"


def test_what_is_real_and_harms_nobody_must_be_noted() -> None:
    truth, seen = Truth(chain=("a",), noted=True), [{"sign": "a", "subject": "unit:a"}]
    assert judge(truth, told(["a"], roots=()) | {"noted": seen}).right
    assert judge(truth, told(["a"], roots=()) | {"noted": []}).outcome == "missed"
    assert judge(truth, told(["a"]) | {"noted": []}).outcome == "wrong accusation"


def test_an_innocent_who_is_only_noted_is_not_accused() -> None:
    said = told(["a", "c"], ["innocent"], roots=("a",))
    said["findings"][-1]["accused"] = False
    assert judge(TRUTH, said).right


def test_a_control_is_right_only_if_nobody_is_accused() -> None:
    assert judge(Truth(), told()).right
    assert judge(Truth(), told(["core"], roots=(), riddles=("core",))).right, "a symptom is no accusation"
    wrong = judge(Truth(), told(["a", "c"]))
    assert wrong.outcome == "wrong accusation" and "a of unit:a" in wrong.why


def test_a_symptom_that_nothing_explains_is_the_truth_where_it_is() -> None:
    said = told(["a"], roots=(), riddles=("a",))
    assert judge(Truth(chain=("a",), unexplained=True), said).right


def test_another_subject_is_not_the_culprit() -> None:
    assert judge(Truth(subject="cgroup:.*", chain=("a",)), told(["a"])).outcome == "wrong accusation"


def test_of_two_faults_both_must_be_told_and_either_may_stand_first() -> None:
    both = Truth(chain=("a", "c"), also=(Truth(chain=("x", "y")),))
    assert judge(both, told(["a", "c"], ["x", "y"])).right
    assert judge(both, told(["x", "y"], ["a", "c"])).right
    assert judge(both, told(["x", "z"], ["a", "c"])).outcome == "in the chain", "its chain is not whole"
    assert judge(both, told(["z"], ["a", "c"], ["x", "y"])).outcome == "wrong accusation", "somebody else"
    assert judge(both, told(["c"], ["a", "c"], ["x", "y"])).outcome == "in the chain", "a stage stands first"
    missed = judge(both, told(["a", "c"]))
    assert missed.outcome == "missed" and "x is" in missed.why


def test_what_is_found_and_did_no_harm_may_not_be_blamed_for_it() -> None:
    truth = Truth(chain=("a", "c"), harmless=("loop",))
    assert judge(truth, told(["a", "c"], ["loop"])).right
    assert judge(truth, told(["loop"], ["a", "c"])).outcome == "in the chain", "it is not what to look at first"
    blamed = judge(truth, told(["a", "c"], ["loop", "c"]))
    assert blamed.outcome == "wrong accusation" and blamed.why == "loop of unit:loop"


def test_a_group_of_signs_is_silent_but_for_the_chain() -> None:
    truth = Truth(chain=("a", "c"), silent=("a", "b", "c"))
    assert judge(truth, told(["a", "c"])).right
    assert judge(truth, told(["a", "c"], ["b"])).outcome == "wrong accusation"


def test_a_whole_chain_of_another_culprit_does_not_count() -> None:
    truth = Truth(subject="unit:a", chain=("a", "c"))
    assert judge(truth, told(["a", "b"], ["z", "a", "c"])).outcome == "wrong accusation"
    assert judge(truth, told(["a", "b"], ["c", "a", "c"])).outcome == "in the chain"
