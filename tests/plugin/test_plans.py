"""Plans of a node, as the kubectl plugin prints them: those of a real recording, and what a pod could answer."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.plugin.plans import as_script, in_words


@pytest.fixture(scope="module")
def told(zombiescope: Any) -> Any:
    """Of the recorded incident that comes with the package."""
    return json.loads(zombiescope("diagnose", "--sample", "--format", "json", expect=1).stdout)


def step(*argv: str, risk: str = "safe", **more: str) -> dict[str, Any]:
    return {"says": "does it", "argv": list(argv), "stdin": "", "risk": risk} | more


def plan(*steps: dict[str, Any], name: str = "stop_it", risk: str = "safe", subject: str = "unit:a") -> dict[str, Any]:
    return {"name": name, "cures": "crash_looping_unit", "subject": subject, "risk": risk, "steps": list(steps)}


def test_the_safe_plan_of_the_incident_is_a_script(told: Any) -> None:
    lines = list(as_script(told, "n1"))
    commands = [line for line in lines if not line.startswith("#")]
    assert "systemctl mask ecs.service" in commands or any("ecs.service" in it for it in commands)
    safe = [it for plan in told["remedies"] if plan["risk"] == "safe" for it in plan["steps"]]
    plain = {shlex.join(it["argv"]) for it in safe if it["argv"]}
    assert {it.partition(" | ")[2] or it for it in commands} <= plain, "as diagnose offers them, unchanged"
    assert not any("reboot" in it or "python" in it for it in commands), "nor what only the pod has"
    assert any(it.startswith("# left out: drain_and_reboot (advice)") for it in lines)
    assert any(it.startswith("# left out: purge_zombies (needs zombiescope on the node)") for it in lines)
    assert "On n1, as root" in lines[0]


def test_in_words_all_are_shown(told: Any) -> None:
    text = "\n".join(in_words(told))
    assert all(f"{it['name']} ({it['risk']})" in text for it in told["remedies"])


def test_what_disrupts_is_left_out_of_a_safe_plan_and_only_the_first_plan_is_taken() -> None:
    remedies = [
        plan(step("systemctl", "stop", "a b"), step("reboot", risk="disruptive")),
        plan(step("second"), name="other"),
        plan(step("third"), name="third", subject="unit:b"),
    ]
    commands = [it for it in as_script({"remedies": remedies}, "n1") if not it.startswith("#")]
    assert commands == ["systemctl stop 'a b'", "third"]


def test_a_command_that_a_terminal_would_change_is_not_offered() -> None:
    for bad in ("\x1b[2J", "a\rb", "a\nb"):
        lines = list(as_script({"remedies": [plan(step("systemctl", "stop", bad))]}, "n1"))
        assert not [it for it in lines if not it.startswith("#")]
        assert any("left out: stop_it" in it for it in lines)
    content = as_script({"remedies": [plan(step("tee", "/etc/x", stdin="[Unit]\nA=b\n"))]}, "n1")
    assert "printf '%s\\n' '[Unit]' A=b | tee /etc/x" in list(content)


@given(st.text(), st.text(), st.text())
def test_no_line_of_a_pod_escapes(name: str, says: str, word: str) -> None:
    lines = list(as_script({"remedies": [plan(step("echo", word, says=says), name=name)]}, name))
    lines += in_words({"remedies": [plan(step("echo", word, says=says), name=name)]})
    assert all(line.isprintable() for line in lines)
    assert all(shlex.split(line)[0] == "echo" for line in lines if not line.startswith("#") and line[:4] == "echo")
