"""starved_thread: who gets far less than its fair share is found; a full node where all get their turn is not."""

from __future__ import annotations

import pytest
from tests.nodes import cores, node, read

from zombiescope.core.model import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import starved_thread

JOB = "process:job[7]"


def waits(wait: float, ran: float, *, subject: str = JOB, times: tuple[float, ...] = (0.0, 5.0, 10.0)) -> list[Reading]:
    kind = subject.partition(":")[0]
    ran_as = ("process_user_seconds_total",) if kind == "process" else ("thread_run_seconds_total",)
    return [
        reading
        for at in times
        for reading in (
            read(f"{kind}_run_delay_seconds_total", subject, 100 + wait * at, at),
            *(read(what, subject, 50 + ran * at, at) for what in ran_as),
        )
    ]


def case(readings: list[Reading], running: float = 2) -> Case:
    machine = cores({0: [{}] * 40, 1: [{}] * 40})
    load = [read("procs_running", "node", running, at / 4) for at in range(41)]
    return examine(node([*machine, *load, *readings]), signs={"starved_thread": starved_thread}, laws={})


def test_who_waits_and_hardly_runs_is_found_with_its_core() -> None:
    where = [read("process_cpus_allowed", JOB, 1, 5.0, "1"), read("process_cpu", JOB, 1, 5.0)]
    (found,) = case([*waits(0.94, 0.05), *where]).findings
    assert found.subject == JOB and found.span.seconds == 10
    assert found.says == (
        "waited to run 94 % of 10.0 s and ran 5 %: it got 5 % of the CPU time it wanted, "
        "where a fair share was 100 %; it is bound to cpu 1"
    )
    assert {"run_delay_ratio", "run_ratio", "process_cpu", "process_cpus_allowed"} == {it.what for it in found.evidence}


def test_one_thread_of_a_busy_process_is_found_with_its_own_time() -> None:
    """The process uses three cores; this thread of it hardly runs."""
    thread, times = "thread:heart[71]", (0.0, 5.0, 10.0)
    own = [
        reading
        for at in times
        for reading in (
            read("task_run_delay_seconds_total", thread, 0.94 * at, at, "of java[70]"),
            read("task_run_seconds_total", thread, 0.02 * at, at),
            read("task_cpu", thread, 1, at),
            read("process_user_seconds_total", "process:java[70]", 3 * at, at),
        )
    ]
    (found,) = case(own).findings
    assert found.subject == thread and "waited to run 94 % of 10.0 s and ran 2 %" in found.says


def test_a_process_is_judged_by_its_first_thread_s_own_time_not_by_all_of_them() -> None:
    own = [read("process_run_seconds_total", JOB, 0.02 * at, at) for at in (0.0, 5.0, 10.0)]
    (found,) = case([*waits(0.9, 3.0), *own]).findings
    assert "and ran 2 %" in found.says


@pytest.mark.parametrize(("unread", "state"), [(1_800, "blind"), (0, "clear")])
def test_threads_that_had_no_turn_are_blind_never_clear(unread: int, state: str) -> None:
    left = [read("threads_unread", "node", unread, at, "process:java[70]") for at in (0.0, 10.0)]
    (verdict,) = case([*waits(0.1, 0.5), *left]).verdicts
    assert verdict.state == state and ("1,800 threads of busy processes had no turn yet" in verdict.says) == bool(
        unread
    )


def test_a_kernel_thread_is_found_by_its_name_and_only_once() -> None:
    both = [*waits(0.9, 0.01, subject="thread:rcu_preempt"), *waits(0.9, 0.01, subject="process:rcu_preempt[15]")]
    assert [it.subject for it in case(both).findings] == ["thread:rcu_preempt"]


@pytest.mark.parametrize(
    ("readings", "running"),
    [
        (waits(0.4, 0.1), 2),
        (waits(0.75, 0.25), 8),
        (waits(0.5, 0.5), 4),
        (waits(0.9, 0.0, subject="thread:ksoftirqd/1"), 2),
        (waits(0.9, 0.0, subject="thread:napi/eth0-8193"), 2),
        (waits(0.9, 0.0, subject="process:napi/eth0-8193[30]"), 2),
        (waits(0.9, 0.05, times=(0.0, 2.0)), 2),
    ],
    ids=["waits little", "a full node", "two share a core", "softirq", "NAPI", "NAPI by its pid", "a short wait"],
)
def test_silent(readings: list[Reading], running: float) -> None:
    result = case(readings, running)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_what_it_waited_while_nobody_looked_is_not_laid_on_one_moment() -> None:
    """It was followed, then for a minute not, and then again."""
    delay = "process_run_delay_seconds_total"
    others = [read(delay, "process:other[8]", 0, at) for at in range(0, 70, 5)]
    jumped = [read(delay, JOB, 100, 0.0), read(delay, JOB, 104.5, 60.0), read(delay, JOB, 104.6, 65.0)]
    assert not case([*others, *jumped]).findings
    seen = [read(delay, JOB, 100, 55.0), read(delay, JOB, 104.5, 60.0)]
    assert [it.subject for it in case([*others, *seen]).findings] == [JOB]


def test_nobody_seen_twice_is_clear_and_one_look_is_blind() -> None:
    assert case(waits(0.9, 0.0, times=(0.0,))).verdicts[0].state == "blind"
