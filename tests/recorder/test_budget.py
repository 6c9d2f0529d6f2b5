"""The recorder's budget: it does less when it is used up, more when there is room, and the recording says both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.recorder.budget import PACE, PATIENCE, SAVED, Budget, Step, default_share


def spend(budget: Budget, seconds: float, rate: float, start: tuple[float, float]) -> tuple[list[str], float, float]:
    said, (now, spent) = [], start
    end = now + seconds
    while now < end:
        now, spent = now + 1, spent + rate
        if why := budget.check(now, spent):
            said.append(why)
    return said, now, spent


def test_it_does_less_step_by_step_and_more_again() -> None:
    budget = Budget(0.01, hz=49, user=True, now=0.0, spent=0.0)
    said, *at = spend(budget, 10 * SAVED, 0.009, (0.0, 0.0))
    assert not said and budget.step == Step(49, True, 1.0), "within the budget nothing changes"
    said, *at = spend(budget, SAVED, 0.012, (at[0], at[1]))
    assert not said, "a little more for a while was saved up"
    said, *at = spend(budget, 200.0, 0.05, (at[0], at[1]))
    assert [it.partition(": ")[2] for it in said] == [
        "24 samples a second on each core",
        "12 samples a second on each core",
        "12 samples a second on each core, stacks of the kernel with the program's leaf only",
        *(
            "12 samples a second on each core, stacks of the kernel with the program's leaf only, "
            f"probes at {times} times their interval"
            for times in (2, 4, 8)
        ),
    ]
    assert said[0].startswith("used 5.00 % of one core, the budget is 1.00 %: ")
    said, *at = spend(budget, 12 * PATIENCE + SAVED, 0.001, (at[0], at[1]))
    assert len(said) == 6 and budget.step == Step(49, True, 1.0) and said[0].startswith("used only 0.10 % of one core")


def test_a_burst_of_settling_is_no_reason() -> None:
    budget = Budget(0.01, hz=49, user=True, now=0.0, spent=0.0)
    spent = 0.0
    for now in range(3600):
        spent += 0.004 + (0.6 if now % 120 == 119 else 0.0)  # 0.9 % in all
        assert not budget.check(float(now), spent)


def test_what_it_spends_in_the_long_run_is_bounded() -> None:
    """Each step halves the cost: it settles where the cost fits."""
    budget = Budget(0.01, hz=999, user=True, now=0.0, spent=0.0)
    spent = 0.0
    for now in range(7200):
        spent += 0.06 * budget.step.hz / 999 * (1.0 if budget.step.user else 0.3) / budget.step.stretch
        budget.check(float(now), spent)
    assert spent < 0.01 * (7200 + 2 * SAVED + 10 * PACE) + 0.06 * 6 * PACE


@pytest.mark.parametrize(("cores", "share"), [(2, 0.01), (48, 0.01), (96, 0.0192), (192, 0.0384)])
def test_it_grows_with_the_node_only_beyond_48_cores(cores: int, share: float) -> None:
    assert default_share(cores) == pytest.approx(share)


def test_without_stacks_only_intervals_stretch_and_nought_is_no_limit() -> None:
    assert [it.stretch for it in Budget(0.01, hz=0, user=True, now=0.0, spent=0.0)._steps] == [1.0, 2.0, 4.0, 8.0]
    unlimited = Budget(0.0, hz=49, user=True, now=0.0, spent=0.0)
    assert not spend(unlimited, 600, 1.0, (0.0, 0.0))[0]


@pytest.mark.e2e
@pytest.mark.alone
@pytest.mark.long
def test_the_recording_says_what_it_left_out(tmp_path: Path, zombiescope: Run) -> None:
    zombiescope("record", str(tmp_path), "--hz", "199", "--budget", "0.01%", "--for", "35s", expect=0)
    told = json.loads(zombiescope("info", str(tmp_path), "--format", "json", expect=0).stdout)
    steps = told["budget_steps"]
    assert told["budget"] == 0.0001 and len(steps) >= 2 and [it["level"] for it in steps] == [1, 2, 3][: len(steps)]
    assert "99 samples a second on each core" in steps[0]["says"] and told["damage"] == []
    assert "budget\t" in zombiescope("info", str(tmp_path), expect=0).stdout


def test_a_share_that_is_none_is_refused(tmp_path: Path, zombiescope: Run) -> None:
    done = zombiescope("record", str(tmp_path), "--budget", "much", expect=2)
    assert "is not a share of one core: write it as 1% or 0.5%" in done.stderr
