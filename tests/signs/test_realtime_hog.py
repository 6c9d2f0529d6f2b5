"""realtime_hog: who runs before all others without a rest is named; who rests, or was cured, or serves is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nodes import node, read

from zombiescope.core.model import Case, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import realtime_hog

HOG = "process:hog[7]"


def hog(share: float, **how: Any) -> Timeline:
    return node(hogging(share, **how))


def hogging(
    share: float, *, subject: str = HOG, priority: tuple[float, ...] = (50, 50, 50), kind: str = "process"
) -> list[Reading]:
    """Three looks, five seconds apart."""
    readings = []
    for place, level in enumerate(priority):
        at, used = place * 5.0, 100 + share * place * 5
        if kind == "process":
            readings += [
                read("process_user_seconds_total", subject, used, at),
                read("process_system_seconds_total", subject, 0, at),
            ]
        else:
            readings += [read("thread_realtime_seconds_total", subject, used, at)]
        core = "process_cpu" if kind == "process" else "thread_realtime_cpu"
        readings += [
            read(f"{kind}_realtime_priority", subject, level, at, "SCHED_FIFO 50" if level else "SCHED_OTHER"),
            read(core, subject, 1, at),
        ]
    other = "process:idle[8]"
    readings += [read(what, other, 0, at) for what in realtime_hog.NEEDS for at in (0.0, 5.0, 10.0)]
    return readings


def case(timeline: Timeline) -> Case:
    return examine(timeline, signs={"realtime_hog": realtime_hog}, laws={})


def test_a_hog_is_named_with_its_policy_its_core_and_how_much_it_used() -> None:
    (found,) = case(hog(0.95)).findings
    assert found.subject == HOG and found.span.seconds == 10
    assert found.says.startswith("used 95 % of a core on cpu 1 at SCHED_FIFO 50 for 10.0 s")
    assert {it.what for it in found.evidence} == {"realtime_used_ratio", "process_realtime_priority", "process_cpu"}


def waiting(shares: dict[str, float]) -> list[Reading]:
    """Who waits for core 1, and how much of the time."""
    return [
        read(what, who, value, at)
        for who, share in shares.items()
        for at in (0.0, 5.0, 10.0)
        for what, value in (("process_run_delay_seconds_total", 3 + share * at), ("process_cpu", 1))
    ]


def test_the_kernel_s_housekeeping_is_nobody_s_wait() -> None:
    told = case(node([*hogging(0.95), *waiting({"process:kworker/1:3-events[28987]": 0.3})]))
    assert not told.root_causes and told.noted == told.findings
    roams = case(node([*hogging(0.95), *waiting({"process:kworker/u4:1-writeback[77]": 0.3})]))
    assert roams.root_causes


def test_who_waited_for_its_core_most_is_evidence() -> None:
    told = case(node([*hogging(0.95), *waiting({"process:small[9]": 0.1, "process:large[10]": 0.4})]))
    (found,) = told.findings
    assert told.root_causes == [found] and not told.noted
    (waiter,) = (it for it in found.evidence if it.what == "run_delay_ratio")
    assert waiter.subject == "process:large[10]" and waiter.value == pytest.approx(0.4)


def test_a_thread_in_an_ordinary_process_is_named_too() -> None:
    (found,) = case(hog(0.8, subject="thread:poll[71]", kind="thread")).findings
    assert found.subject == "thread:poll[71]" and "80 % of a core on cpu 1" in found.says


@pytest.mark.parametrize(
    "timeline",
    [
        hog(0.2),
        hog(0.95, priority=(50, 0, 0)),
        hog(0.95, subject="process:irq/38-eth0[7]"),
        hog(0.95, subject="process:napi/eth0-8193[7]"),
        hog(0.95, subject="process:migration/0[7]"),
    ],
    ids=["it rests", "cured before it used any", "serves interrupts", "serves packets", "the scheduler's own"],
)
def test_silent(timeline: Timeline) -> None:
    result = case(timeline)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_who_was_cured_is_a_hog_no_longer() -> None:
    (found,) = case(hog(0.95, priority=(50, 50, 0))).findings
    assert found.span.seconds == 5


def test_nobody_of_real_time_priority_is_clear() -> None:
    quiet = node(read(what, "process:a[1]", 0, at) for what in realtime_hog.NEEDS for at in (0.0, 5.0))
    assert case(quiet).verdicts[0].state == "clear"
