"""Remedies are offered in one order with the same marks everywhere, and their commands run as they are given."""

from __future__ import annotations

import io
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_fix import recorded
from tests.conftest import Run
from tests.diagnosis.incident import incident
from tests.nodes import read
from tests.treatment.test_prove import quick_reads

from zombiescope.core import Case, Finding, Ground, Link, Plan, Reading, Span, Step
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import load
from zombiescope.outputs._offers import meant, offers
from zombiescope.outputs._story import next_commands

KUBELET = read("unit_active", "unit:kubelet.service", 1, 0.0)


@pytest.fixture(scope="module")
def case() -> Case:
    return examine(incident(extra=[KUBELET]), node="worker-1", kernel="5.4.0")


def written(case: Case, output: str) -> str:
    out = io.StringIO()
    load("outputs", output).write(case, Timeline(), out)
    return out.getvalue()


def test_the_safe_fix_of_the_root_cause_comes_first_advice_after_and_a_reboot_last(case: Case) -> None:
    names = [plan.name for plan in offers(case)]
    assert names[0] == "stop_leaking_unit" and offers(case)[0].cures in case.root_causes
    assert names[-1] == "drain_and_reboot" and len(names) > 3
    kinds = [it["risk"] for it in json.loads(written(case, "json"))["remedies"]][:-1]
    assert kinds == sorted(kinds, key=("safe", "disruptive", "advice").index) and len(set(kinds)) > 1


def test_json_html_and_the_plan_agree_in_order_and_risk(case: Case, zombiescope: Run, tmp_path: Path) -> None:
    told = [(it["name"], it["risk"]) for it in json.loads(written(case, "json"))["remedies"]]
    page = written(case, "html")
    shown = re.findall(r'<h3><code>(\w+)</code> <b class="badge (\w+)">', page)
    assert shown == told[: len(shown)] and len(shown) > 3
    folder = recorded(incident(without="stacks", extra=[*quick_reads(), KUBELET]), tmp_path / "rec")
    again = json.loads(zombiescope("diagnose", folder, "--format", "json").stdout)["remedies"]
    plan = zombiescope("fix", "--recording", folder).stdout
    meant = re.findall(r"^(\w+) \((\w+)\): for", plan, re.MULTILINE)
    others = re.findall(r"^  zombiescope fix (\w+) --recording \S+  \((\w+),", plan, re.MULTILINE)
    order = [(it["name"], it["risk"]) for it in again]
    assert meant[0] == order[0] and [it for it in order if it in meant] == meant and others[-1] == order[-1]
    assert {*meant, *others} == {*order}


def test_each_disruptive_step_is_marked_and_none_hides_under_a_safe_badge(case: Case) -> None:
    page = written(case, "html")
    for words in ("reclaim also where processes run", "drop the page cache of the whole node"):
        (line,) = (line for line in page.splitlines() if words in line)
        assert '<b class="badge disruptive">disruptive</b>' in line
    purge = remedy(case, "purge_zombies")
    assert [step["risk"] for step in purge["steps"]][-3:] == ["disruptive"] * 3
    assert "drop-caches" not in purge["command"]


def remedy(case: Case, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(it for it in json.loads(written(case, "json"))["remedies"] if it["name"] == name)
    return found


def one(*steps: Step) -> Case:
    seen = Reading(what="x", subject="node", value=1, at=0, source="/proc/x")
    sick = Finding(subject="node", span=Span(0, 1), says="sick", evidence=(seen,), sign="z")
    plan = Plan(cures=sick, risk="safe", proof=("z",), steps=steps, name="cure")
    return Case(node="n", kernel="6.8", span=Span(0, 1), findings=(sick,), plans=(plan,))


def test_a_command_is_whole_and_runs_when_it_is_pasted(tmp_path: Path) -> None:
    """Longer than what is cut for people, with quotes, and a file of several lines on its standard input."""
    text, path = "[Unit]\nA=1\n" + "# it's long\n" * 99, str(tmp_path / "it's a file")
    told = remedy(one(Step(says="write", argv=("tee", path), stdin=text)), "cure")
    assert told["steps"] == [{"says": "write", "argv": ["tee", path], "stdin": text, "risk": "safe"}]
    subprocess.run(["sh", "-c", told["command"]], check=True, stdout=subprocess.DEVNULL)
    assert Path(path).read_text() == text


def test_a_hostile_name_is_never_offered_for_pasting() -> None:
    told = remedy(one(Step(says="x", argv=("kill", "\x1b]0;x\x07"))), "cure")
    assert told["command"] == "" and told["steps"][0]["argv"] == ["kill", "\x1b]0;x\x07"]


def test_advice_is_called_advice() -> None:
    told = remedy(one(Step(says="think")), "cure")
    assert told["risk"] == told["steps"][0]["risk"] == "advice" and told["command"] == ""


def test_after_a_recording_the_next_command_is_about_it(case: Case, zombiescope: Run, tmp_path: Path) -> None:
    assert next_commands(case)[0] == "zombiescope fix"
    there = next_commands(replace(case, recording="/tmp/a rec"))
    assert there[0] == "zombiescope fix --recording '/tmp/a rec'" and "zombiescope census --names" not in there
    folder = recorded(incident(without="stacks", extra=quick_reads()), tmp_path / "a rec")
    said = zombiescope("diagnose", folder, expect=1).stdout
    assert f"zombiescope fix --recording '{folder}'" in re.sub(r"\s+", " ", said) and "census --names" not in said


def found(sign: str) -> Finding:
    seen = Reading(what="x", subject="node", value=1, at=0, source="/proc/x")
    return Finding(subject="node", span=Span(0, 1), says=sign, evidence=(seen,), sign=sign)


@pytest.mark.parametrize("harms", [True, False])
@pytest.mark.parametrize("aside", [True, False])
def test_what_a_cause_left_behind_is_cleaned_up_unasked_only_where_it_does_harm(harms: bool, aside: bool) -> None:
    root, left, harmed = found("crash_looping_unit"), found("zombie_cgroups"), found("cgroup_walker")
    ground = Ground(kind="mechanism", says="x", evidence=root.evidence)
    links = [Link(law="a", cause=root, effect=left, grounds=(ground,))]
    links += [Link(law="b", cause=left, effect=harmed, grounds=(ground,))] * harms
    stop = Plan(cures=root, risk="safe", proof=(), steps=(Step(says="stop", argv=("true",)),), name="stop")
    purge = replace(stop, cures=left, name="purge", aftermath=True)
    reclaim, reboot = replace(purge, name="other"), replace(stop, cures=harmed, name="reboot", last_resort=True)
    case = Case(
        node="n",
        kernel="6.8",
        span=Span(0, 1),
        findings=(root, left, harmed),
        links=tuple(links),
        plans=(reboot, purge, reclaim, stop),
        noted=(left,) if aside else (),
    )
    expected = ["stop", "purge"] if harms and not aside else ["stop"]
    assert [plan.name for plan in meant(case) if plan.cures is not harmed] == expected
    assert offers(case)[-1] is reboot, "whatever else is offered"
