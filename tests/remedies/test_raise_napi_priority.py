"""raise_napi_priority: one command that does both or nothing; a real NAPI thread, there and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.nodes import node, read
from tests.remedies.planned import plans
from tests.signs.test_interrupts import queues
from tests.signs.test_starved_softirq import thread

from zombiescope.core import Plan, Reading, UserError
from zombiescope.core.timeline import Timeline
from zombiescope.lab._scenario import missing
from zombiescope.lab._veth import cable
from zombiescope.treatment.napi_command import serves

NIC = read("nic_tx_timeouts_total", "nic:eth0", 0, 0.0)
GAPS = [read("core_gap_seconds", "cpu:1", 0.04, place * 0.06) for place in range(100)]
STARVED = thread("ksoftirqd/1", [0.9] * 10, [0.0] * 10)


def hog(priority: int) -> list[Reading]:
    readings = []
    for at in (0.0, 5.0, 10.0):
        readings += [
            read("process_user_seconds_total", "process:hog[7]", at * 0.95, at),
            read("process_system_seconds_total", "process:hog[7]", 0, at),
            read("process_realtime_priority", "process:hog[7]", priority, at, f"SCHED_FIFO {priority}"),
            read("process_cpu", "process:hog[7]", 1, at),
        ]
    return readings


def planned(timeline: Timeline, *signs: str, kernel: str = "6.8.0") -> list[Plan]:
    return plans(timeline, "raise_napi_priority", *(signs or ("starved_softirq",)), kernel=kernel)


def test_threads_are_made_and_raised_by_one_command_that_has_its_undo() -> None:
    (plan,) = planned(node([*STARVED, *queues(1), NIC]))
    (step,) = plan.steps
    assert plan.risk == "disruptive" and plan.proof == ("starved_softirq",)
    assert step.argv[-3:] == ("thread", "eth0", "60") and step.undo[-3:] == ("lower", "eth0", "60")
    assert step.keeps == ("/sys/class/net/eth0/threaded",)


def test_threads_that_are_there_are_only_raised() -> None:
    napi = [*thread("napi/eth0-8193", [0.8] * 10, [0.0] * 10), read("thread_cpu", "thread:napi/eth0-8193", 1, 9)]
    (plan,) = planned(node(napi))
    assert plan.risk == "safe" and plan.steps[0].argv[-3:] == ("raise", "eth0", "60")


SIGNS = ("starved_softirq", "realtime_hog")


def test_they_are_put_above_the_hog_and_what_to_do_about_it_is_advice() -> None:
    found = {plan.cures.sign: plan for plan in planned(node([*STARVED, *queues(1), NIC, *hog(80)]), *SIGNS)}
    assert found["starved_softirq"].steps[0].argv[-1] == "81"
    assert found["realtime_hog"].advice and "chrt --other --pid 0 7" in found["realtime_hog"].steps[0].says
    assert found["realtime_hog"].steps[1].says.endswith("`zombiescope fix raise_napi_priority`")


def test_where_nothing_can_be_put_above_the_hog_nothing_is_done() -> None:
    found = planned(node([*STARVED, *queues(1), NIC, *hog(98)]), *SIGNS)
    assert len(found) == 2
    assert all(plan.advice and "nothing can be put above its priority, 98" in plan.steps[1].says for plan in found)


@pytest.mark.parametrize(("priority", "above"), [(0, "60"), (59, "60"), (60, "61"), (96, "97")])
def test_the_highest_that_is_used_is_below_the_watchdogs(priority: int, above: str) -> None:
    found = {plan.cures.sign: plan for plan in planned(node([*STARVED, *queues(1), NIC, *hog(priority)]), *SIGNS)}
    assert found["starved_softirq"].steps[0].argv[-1] == above
    nothing = planned(node([*STARVED, *queues(1), NIC, *hog(97)]), *SIGNS)
    assert all(plan.advice and "lower it to less than 97" in plan.steps[1].says for plan in nothing)


@pytest.mark.parametrize(("kernel", "plans"), [("5.11.22", 0), ("5.12.0-rc1", 1), ("5.13", 1), ("6.1.0", 1), ("", 1)])
def test_the_kernels_that_have_threads(kernel: str, plans: int) -> None:
    assert len(planned(node([*STARVED, *queues(1), NIC]), kernel=kernel)) == plans


@pytest.mark.parametrize(
    ("readings", "signs", "kernel"),
    [
        ([*STARVED, NIC], ("starved_softirq",), "6.8.0"),
        ([*STARVED, *queues(1)], ("starved_softirq",), "6.8.0"),
        ([*STARVED, *queues(1), NIC], ("starved_softirq",), "5.4.0-1103-aws"),
        ([*hog(50), *queues(1), NIC], ("realtime_hog",), "6.8.0"),
        ([*GAPS, *queues(1), NIC], ("starved_softirq",), "6.8.0"),
    ],
    ids=["it serves no card", "whose queue it is is not known", "an old kernel", "a hog alone", "interrupts are off"],
)
def test_where_it_does_not_apply(readings: list[Reading], signs: tuple[str, ...], kernel: str) -> None:
    assert planned(node(readings), *signs, kernel=kernel) == []


def test_whose_thread_it_is() -> None:
    assert serves("napi/eth0-8193", "eth0") and not serves("napi/eth0-8193", "eth") and not serves("napi/eth0-", "eth0")
    assert serves("napi/enp131s0f0", "enp131s0f0np0") and not serves("napi/enp131s0f1", "enp131s0f0np0")
    assert serves("napi/abcdefghi-", "abcdefghi") and serves("napi/abcdefgh-1", "abcdefgh"), "15 characters are all"
    assert serves("napi/a.b-1", "a.b") and not serves("napi/axb-1", "a.b")


@pytest.mark.kernel
def test_a_real_card_there_and_back(tmp_path: Path) -> None:
    if lacking := missing(("ip",)):
        pytest.skip(CANNOT + "; ".join(lacking))
    try:
        with cable(("zslab-na", "zslab-nb"), "10.213.19") as (end, _):
            argv = [*end.inside, sys.executable, "-m", "tests.remedies.napi_in_namespace", end.nic, str(tmp_path)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, cwd=PROJECT)
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    if done.returncode == 77:
        pytest.skip(CANNOT + done.stderr.strip())
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["before"] == {"threaded": "0\n", "threads": []}
    assert seen["named alike"] == {"exit": 1, **seen["before"]}, "only where its own switch is on"
    assert seen["applied"] == {"threaded": "1\n", "threads": [["SCHED_FIFO", 60]]}
    assert seen["again"] == seen["applied"], "done twice it does no more than once"
    assert seen["undone"]["threaded"] == "0\n"
    assert all(thread == ["SCHED_OTHER", 0] for thread in seen["undone"]["threads"])
    assert seen["without NAPI"] == {"failed": True, "threaded": "0\n", "threads": []}
