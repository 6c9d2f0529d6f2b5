"""What ended before the look began: said with its age, behind what goes on, and no problem without --since."""

from __future__ import annotations

import io

import pytest
from tests.diagnosis.costs import case, costing, part, sign
from tests.nodes import T0

from zombiescope.core import Case, Span
from zombiescope.core.timeline import Timeline
from zombiescope.outputs import html, text
from zombiescope.outputs._story import OK, PROBLEM, headline
from zombiescope.outputs.json import shape

AGO = 1800.0
KILL = sign(
    costing(part("broken", 3, "cgroup:/pod", kind="kills")), subject="cgroup:/pod", span=Span(T0 - AGO, T0 - AGO)
)
WAITS = costing(part("waited", 0.1))


def said(found: Case) -> str:
    out = io.StringIO()
    text.write(found, Timeline(), out)
    return out.getvalue()


def test_the_past_is_no_problem_of_now() -> None:
    found = case(kill=KILL)
    assert not found.root_causes and [it.sign for it in found.past] == ["kill"]
    assert headline(found) == (OK, "all 1 checks looked and found nothing that harms anybody")
    assert shape(found)["past"] == [
        {"sign": "kill", "subject": "cgroup:/pod", "says": "is seen", "ago_seconds": pytest.approx(AGO + 10)}
    ]
    assert "Earlier, over before this recording began:\n  30 min ago: /pod is seen (kill)" in said(found)


def test_the_page_has_what_it_costs_and_what_is_set_aside() -> None:
    out = io.StringIO()
    html.write(case(kill=KILL, waits=WAITS, idle=costing()), Timeline(), out)
    page = out.getvalue()
    assert '<p class="cost">costs 0.1 of 4 cores (trainer waits 0.1), since 21:20</p>' in page
    assert (
        '<section id="past"><h2>Earlier, over before this recording began</h2>' in page and "30 min ago: /pod" in page
    )
    assert '<section id="noted"><h2>Noted, no harm done</h2>' in page


def test_with_since_it_counts_and_comes_after_what_goes_on() -> None:
    found = case(kill=KILL, waits=WAITS, since=3600.0)
    assert [it.sign for it in found.root_causes] == ["waits", "kill"] and not found.past
    assert headline(case(kill=KILL, since=3600.0))[0] == PROBLEM
    assert [it.sign for it in case(kill=KILL, since=600.0).past] == ["kill"], "older than that"


def test_it_never_outranks_what_goes_on() -> None:
    found = case(kill=KILL, waits=WAITS)
    assert [it.sign for it in found.root_causes] == ["waits"] and [it.sign for it in found.past] == ["kill"]


def test_a_cause_that_ended_is_accused_of_what_goes_on() -> None:
    found = case("kill_to_job", kill=KILL, job=costing(part("broken", 1, "job:train", kind="jobs")))
    assert not found.links, "an effect must come soon after its cause"
    near = sign(costing(part("broken", 1, kind="kills")), span=Span(T0 - 9, T0 - 8))
    found = case("kill_to_job", kill=near, job=costing(part("broken", 1, "job:train", kind="jobs")))
    assert [it.sign for it in found.root_causes] == ["kill"] and not found.past
    assert dict(found.costs[0][1].broken) == {"kills": 1, "jobs": 1}


def test_what_ended_keeps_what_it_broke_and_nobody_waits_for_it_now() -> None:
    before = Span(T0 - 100, T0 - 90)
    over = costing(part("broken", 2, "nic:eth0", kind="resets", span=before), part("waited", 5.0, span=before))
    found = case("leak_to_reset", leak=costing(part("waited", 0.1)), reset=sign(over, span=before))
    assert [it.effect.sign for it in found.links] == ["reset"]
    harm = found.cost_of(found.root_causes[0])
    assert (dict(harm.broken), harm.waited_cores) == ({"resets": 2}, 0.1)


def test_what_broke_before_does_not_accuse_what_is_harmless_now() -> None:
    before = Span(T0 - 100, T0 - 90)
    over = sign(costing(part("broken", 2, "nic:eth0", kind="resets", span=before)), span=before)
    assert [it.sign for it in case("leak_to_reset", leak=costing(), reset=over).noted] == ["leak", "reset"]
