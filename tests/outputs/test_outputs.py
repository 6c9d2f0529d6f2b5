"""Every output, on a case with everything in it: hostile names, rivals, riddles, blindness, not-a-number."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from typing import Any

import pytest
from tests.nodes import T0, node, read
from tests.outputs.incident import incident
from tests.outputs.incident_readings import timeline

from zombiescope import core
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import load, names
from zombiescope.outputs._story import tellings

EVIL = 'a\x1b[31mred\nname "quoted" \udcff\u202e' + "x" * 300
TIMELINE = node([read("seen", "node", 1, 0)])


def reading(value: float = 1.0) -> core.Reading:
    return core.Reading(what="seen", subject=f"unit:{EVIL}", value=value, at=T0, source=f"/proc/{EVIL}", text=EVIL)


def finding(sign: str, start: float) -> core.Finding:
    return core.Finding(
        sign=sign,
        subject=f"unit:{EVIL}",
        span=core.Span(T0 + start, T0 + 60),
        says=f"{sign} says {EVIL}",
        evidence=(reading(),) * 9,
    )


def full_case() -> core.Case:
    cause, rival, effect, riddle = (finding(sign, at) for at, sign in enumerate(("leak", "poll", "walk", "reset")))
    ground = core.Ground(kind="dose", says=EVIL, evidence=(reading(float("nan")),))
    stop = core.Step(says="stop", argv=("systemctl", "stop", EVIL))
    place = core.Ground(kind="place", says="same", evidence=(reading(),))
    return core.Case(
        node=EVIL,
        kernel="5.4.0",
        span=core.Span(T0, T0 + 60),
        findings=(cause, rival, effect, riddle),
        links=(
            core.Link(law="poll_to_walk", cause=rival, effect=effect, grounds=(place,)),
            core.Link(law="leak_to_walk", cause=cause, effect=effect, grounds=(ground, place)),
        ),
        verdicts=(
            core.Verdict(sign="walk", state="found"),
            core.Verdict(sign="dark", state="blind", says="/dev/kmsg: permission denied"),
            core.Verdict(sign="ours", state="broken", says="KeyError: 'x'"),
            core.Verdict(sign="well", state="clear", says="looked", evidence=(reading(),)),
        ),
        unexplained=(
            core.Unexplained(
                finding=riddle, candidates=(core.Candidate(law="walk_to_reset", why_not=EVIL, blind=True),)
            ),
        ),
        tallies=(core.Tally(law="leak_to_walk", effects=3, explained=2, causes=40, led=2),),
        plans=(core.Plan(cures=cause, steps=(stop,), risk="safe", proof=("leak",), name="stop_it"),),
        settings=("walk.MANY=7",),
    )


def written(form: str, case: core.Case, seen: Timeline = TIMELINE) -> str:
    out = io.StringIO()
    load("outputs", form).write(case, seen, out)
    return out.getvalue()


@pytest.mark.parametrize("form", names("outputs"))
def test_hostile_text_is_harmless_in_every_output(form: str) -> None:
    shown = written(form, full_case())
    assert "\x1b" not in shown and "\u202e" not in shown and shown.encode("utf-8")
    assert all(len(line) < 2500 for line in shown.splitlines())


@pytest.mark.parametrize("form", names("outputs"))
def test_an_empty_case_can_be_written(form: str) -> None:
    assert written(form, core.Case(node="", kernel="", span=core.Span(0, 0)))


def test_json_keeps_the_promise() -> None:
    shape: dict[str, Any] = json.loads(written("json", full_case()), parse_constant=pytest.fail)
    assert shape["schema"] == 1 and shape["span"] == {"start": T0, "end": T0 + 60}
    assert [cause["sign"] for cause in shape["root_causes"]] == ["leak"]
    assert [[it["sign"] for it in chain] for chain in shape["chains"]] == [["leak", "walk"], ["reset"]]
    assert [(shape["findings"][it["cause"]]["sign"], it["effect"]) for it in shape["links"]] == [
        ("poll", 2),
        ("leak", 2),
    ]
    assert (
        shape["unexplained"][0]["finding"] == 3 and shape["unexplained"][0]["candidates"][0]["law"] == "walk_to_reset"
    )
    assert {it["state"] for it in shape["verdicts"]} == {"found", "blind", "broken", "clear"}
    remedy = shape["remedies"][0]
    assert (remedy["name"], remedy["cures"], remedy["risk"]) == ("stop_it", "leak", "safe")
    assert set(remedy["steps"][0]) == {"says", "argv", "stdin", "risk"}
    assert shape["links"][1]["grounds"][0]["evidence"][0]["value"] is None, "JSON has no NaN"
    assert set(shape["findings"][0]) == {"sign", "subject", "says", "span", "evidence", "harm", "accused"}
    assert (shape["past"], shape["noted"], shape["unsure"]) == ([], [], [])
    assert set(shape["findings"][0]["evidence"][0]) == {"what", "subject", "value", "at", "source", "text"}


def test_json_is_the_same_each_time() -> None:
    assert written("json", full_case()) == written("json", full_case())


def test_a_question_is_answered_in_every_report_a_person_reads_and_in_json() -> None:
    refuted, open_ = incident().answers
    text = " ".join(written("text", incident(), timeline()).split())
    assert f"{refuted.question.replace('_', ' ')}? refuted: " in text and open_.question not in text
    answers = json.loads(written("json", incident()))["answers"]
    assert [set(answer) for answer in answers] == [{"question", "state", "says", "evidence"}] * 2
    assert answers[0]["state"] == "refuted" and answers[0]["evidence"] and not answers[1]["evidence"]


def test_a_second_chain_from_the_same_cause_begins_where_it_leaves_the_first() -> None:
    root, left, right, end = (finding(sign, at) for at, sign in enumerate(("leak", "walk", "slow", "reset")))
    ground = core.Ground(kind="dose", says="more", evidence=(reading(),))
    pairs = ((root, left), (left, end), (root, right))
    links = tuple(core.Link(law="law", cause=cause, effect=effect, grounds=(ground,)) for cause, effect in pairs)
    case = core.Case(node="n", kernel="k", span=core.Span(T0, T0 + 60), findings=(root, left, right, end), links=links)
    long, short = tellings(case)
    assert [it.sign for it in long.chain] == ["leak", "walk", "reset"] and not long.before
    assert [it.sign for it in short.chain] == ["leak", "slow"] and short.before == 1
    assert written("text", case).count("leak says") == 1, "the leak is shown once"


def test_dot_is_accepted_by_graphviz() -> None:
    shown = written("dot", full_case())
    assert shown.count("->") == 2 and shown.count("color=red") == 1
    if shutil.which("dot"):
        assert b"<svg" in subprocess.run(["dot", "-Tsvg"], input=shown.encode(), capture_output=True, check=True).stdout
