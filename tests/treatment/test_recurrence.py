"""How often a fault came, from its findings."""

from __future__ import annotations

import pytest
from tests.nodes import T0, read

from zombiescope.core import Case, Finding, Reading, Span
from zombiescope.treatment.recurrence import long_enough, recurrences


def found(
    start: float, end: float, *evidence: Reading, sign: str = "driver_reset", subject: str = "nic:eth0"
) -> Finding:
    proof = evidence or (read("kernel_log", "node", 3, start),)
    return Finding(sign=sign, subject=subject, span=Span(T0 + start, T0 + end), says="x", evidence=proof)


def needs(*findings: Finding, end: float = 600.0) -> float:
    case = Case(node="", kernel="", span=Span(T0, T0 + end), findings=findings)
    (one,) = recurrences(case, findings)
    return one.needs


@pytest.mark.parametrize(
    ("findings", "seconds"),
    [
        ([found(100, 101), found(300, 301), found(500, 501)], 600.0),  # every 200 s
        ([found(100, 101), found(100.5, 101, subject="nic:eth1"), found(400, 401)], 900.0),  # two cards at once: one
        ([found(300, 301)], 600.0),  # once in the whole recording
        ([found(-300, -299)], 900.0),  # once, and the log reaches back five minutes
        ([found(10, 11), found(20, 21), found(30, 31)], 3 * 569.0),  # it stopped long before the fix
        ([found(0, 600, read("n_total", "x", 5, 0), read("n_total", "x", 65, 600))], 30.0),  # 60 restarts in 600 s
        ([found(0, 600, read("n_total", "x", 5, 0), read("n_total", "x", 6, 600))], 600.0),  # one more is once
        ([found(0, 600, read("n_total", "x", 5, 0), read("n_total", "x", 7, 600))], 900.0),  # two more are an interval
        ([found(0, 600, read("t_seconds_total", "x", 0, 0), read("t_seconds_total", "x", 60, 600))], 600.0),  # no count
        ([found(0, 600, read("n_total", "x", 5, 0), read("n_total", "y", 65, 600))], 600.0),  # two counters
        ([found(0, 200, read("n_total", "x", 0, 0), read("n_total", "x", 20, 200))], 3 * 400.0),  # it stopped
    ],
)
def test_the_interval(findings: list[Finding], seconds: float) -> None:
    assert needs(*findings) == pytest.approx(seconds)


def test_the_slowest_sign_decides() -> None:
    often = [found(at, at + 1) for at in range(0, 600, 60)]
    seldom = [found(at, at + 1, sign="job_failure") for at in (0, 500)]
    case = Case(node="", kernel="", span=Span(T0, T0 + 600), findings=(*often, *seldom))
    assert long_enough(case, often, 181).state == "held"
    check = long_enough(case, case.findings, 1400)
    assert check.state == "blind"
    assert check.says == "checked for 23 min; job_failure came 2 times, every 8 min: 25 min are needed"
    assert long_enough(case, case.findings, 1500).state == "held"
    assert long_enough(case, (), 1500).state == "blind"


def test_how_often_is_said() -> None:
    counted = found(0, 600, read("n_total", "x", 5, 0), read("n_total", "x", 65, 600))
    case = Case(node="", kernel="", span=Span(T0, T0 + 600), findings=(counted,))
    assert [it.says for it in recurrences(case, [counted])] == ["came 60 times, every 10.0 s"]
