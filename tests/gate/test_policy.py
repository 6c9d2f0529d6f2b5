"""Agents have a lifecycle: entries with an owner and a review date, objected to when they are stale; also on a node."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT, Run
from tests.gate.images import LIB, PLAIN, WANTS, clean

from zombiescope.audit.loops import RestartPolicy, judge
from zombiescope.audit.survey import Row, Survey
from zombiescope.core import Host
from zombiescope.gate import unknown_unit
from zombiescope.gate._image import Image
from zombiescope.gate._lists import Allowance, read_allowed
from zombiescope.gate._objection import Objection, Ruling
from zombiescope.gate._rulings import rulings
from zombiescope.knowledge.agents import agent_of

TODAY = date(2026, 11, 16)
ENTRY = "[[allow]]\nunit = 'nginx.*'\nowner = 'web@example.com'\nreason = 'the page'\n"
REST = "units = ['apt-daily.timer', 'never-there-*.service']\n"


def stale(folder: Path, text: str) -> Ruling:
    (folder / "policy.toml").write_text(text)
    allowed = read_allowed(str(folder / "policy.toml"))
    image = Image(Host(str(clean(folder / "root")), live=False), allowed=allowed, today=TODAY)
    told = {it.rule: it for it in rulings(image)}
    assert told["unknown_unit"].state == "pass", "a stale entry still allows: one objection is enough"
    return told["stale_allowance"]


def test_an_entry_that_is_fresh_and_there_is_no_objection(tmp_path: Path) -> None:
    told = stale(tmp_path, f"{REST}{ENTRY}review_by = 2026-11-16\n")
    assert told.state == "pass" and told.says.endswith("1; the next review is due by 2026-11-16")


def test_a_date_that_has_passed(tmp_path: Path) -> None:
    (objection,) = stale(tmp_path, f"{REST}{ENTRY}review_by = 2026-11-15\n").objections
    assert objection.says == "entry 1 was to be reviewed by 2026-11-15 (owner: web@example.com)"
    assert objection.level == "error" and objection.where.endswith("policy.toml")


def test_an_agent_that_is_gone(tmp_path: Path) -> None:
    gone = "[[allow]]\nunit = 'datadog-agent.service'\nowner = 'sre'\n"
    (objection,) = stale(tmp_path, f"{REST}{ENTRY}{gone}").objections
    assert objection.says == "entry 2 allows a unit that is not installed (owner: sre)"
    assert objection.subject == "allow:datadog-agent.service"


def test_audit_checks_a_node_against_the_same_list(zombiescope: Run, tmp_path: Path) -> None:
    extra = {f"{LIB}/{name}": PLAIN for name in ("prometheus-node-exporter.service", "surprise.service")}
    links = {f"{WANTS}/{Path(name).name}": f"/{name}" for name in extra}
    root = str(clean(tmp_path / "root", extra, links))
    policy = tmp_path / "policy.toml"
    policy.write_text(f"{REST}{ENTRY}[[allow]]\nunit = 'prometheus-*'\nreview_by = 2020-01-01\n")
    shape = json.loads(
        zombiescope("audit", "--root", root, "--policy", str(policy), "--format", "json", expect=1).stdout
    )
    assert [it["subject"] for it in shape["objections"]] == ["allow:prometheus-*", "unit:surprise.service"]
    said = zombiescope("audit", "--root", root, "--policy", str(policy), expect=1).stdout
    assert "policy: unit:surprise.service: enabled by multi-user.target, but not in the allow-list" in said
    assert "fix: systemctl disable surprise.service" in said
    policy.write_text(
        f"units = ['surprise.service']\n{ENTRY}[[allow]]\nunit = 'prometheus-*'\n[[allow]]\nunit = 'apt-*'\n"
    )
    assert "policy:" not in zombiescope("audit", "--root", root, "--policy", str(policy), expect=0).stdout
    assert "no such file" in zombiescope("audit", "--root", root, "--policy", "/none", expect=2).stderr


@pytest.mark.parametrize(
    ("changed", "allowed", "objects"),
    [
        ({}, [], True),
        ({"state": "activating (auto-restart)"}, [], True),
        ({"state": "inactive (dead)"}, [], False),
        ({"enabled_by": ("multi-user.target",)}, [], False),  # another objection says so
        ({"essential": True}, [], False),
        ({"agent": None}, [], False),
        ({}, ["ecs.service"], False),
    ],
)
def test_a_known_agent_that_runs_without_being_enabled(
    tmp_path: Path, changed: dict[str, Any], allowed: list[str], objects: bool
) -> None:
    """On a machine that runs: somebody has started it by hand, or something that no unit file names."""
    image = Image(
        Host(str(clean(tmp_path)), live=True),
        allowed=[Allowance(unit=it) for it in ("nginx.service", "apt-daily.timer", *allowed)],
    )
    row = Row(
        unit="ecs.service",
        path=f"/{LIB}/ecs.service",
        enabled="disabled",
        state="active (running)",
        policy=RestartPolicy(),
        judged=judge(RestartPolicy(), None),
        agent=agent_of("ecs.service"),
    )
    image.survey = Survey(rows=(replace(row, **changed),), unseen=())  # what systemd said
    found = [it for it in unknown_unit.look(image) if isinstance(it, Objection)]
    assert [it.subject for it in found] == ["unit:ecs.service"] * objects
    assert {"ecs.service", "nginx.service"} < set(image.installed), "systemd has one, a folder the other"


def test_the_template_is_a_policy(zombiescope: Run, tmp_path: Path) -> None:
    template = PROJECT / "examples/gate/policy.toml"
    entries = [it for it in read_allowed(str(template)) if it.place]
    assert entries and all(it.owner and it.reason and it.review_by for it in entries)
    units = {f"{LIB}/{entry.unit}": PLAIN for entry in entries}
    root = clean(tmp_path, units)
    (root / f"{WANTS}/nginx.service").unlink()
    zombiescope("gate", "--root", str(root), "--allow", str(template), expect=0)
    zombiescope("audit", "--root", str(root), "--policy", str(template), expect=0)
