"""Plans of a node, as the kubectl plugin prints them: those of a real recording, and what a pod could answer."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.plugin.answers import REFUSED, answer
from zombiescope.plugin.plans import as_script, in_words


@pytest.fixture(scope="module")
def told(zombiescope: Any) -> Any:
    """Of the recorded incident that comes with the package."""
    return answer(zombiescope("diagnose", "--sample", "--format", "json", expect=1).stdout, "n1")


def of(*plans: dict[str, Any]) -> dict[str, Any]:
    """What is made of an answer with these plans."""
    return answer(json.dumps({"findings": [], "remedies": list(plans)}), "n1")


def step(*argv: str, risk: str = "safe", **more: str) -> dict[str, Any]:
    return {"says": "does it", "argv": list(argv), "stdin": "", "risk": risk} | more


def plan(
    *steps: dict[str, Any], name: str = "stop_leaking_unit", risk: str = "safe", subject: str = "unit:a.service"
) -> dict[str, Any]:
    return {"name": name, "cures": "crash_looping_unit", "subject": subject, "risk": risk, "steps": list(steps)}


def stop(unit: str) -> dict[str, Any]:
    return step("systemctl", "stop", "--", unit)


def commands(told: dict[str, Any]) -> list[str]:
    return [it for it in as_script(told, "n1") if not it.startswith("#")]


def test_the_safe_plan_of_the_incident_is_a_script(told: Any) -> None:
    lines = list(as_script(told, "n1"))
    typed = [line for line in lines if not line.startswith("#")]
    assert "systemctl mask -- ecs.service" in typed or any("ecs.service" in it for it in typed)
    safe = [it for plan in told["remedies"] if plan["risk"] == "safe" for it in plan["steps"]]
    plain = {shlex.join(it["argv"]) for it in safe if it["argv"]}
    assert {it.partition(" | ")[2] or it for it in typed} <= plain, "as diagnose offers them, unchanged"
    assert not any("reboot" in it or "python" in it for it in typed), "nor what only the pod has"
    assert any(it.startswith("# left out: drain_and_reboot (advice)") for it in lines)
    assert any(it.startswith("# left out: purge_zombies (needs zombiescope on the node)") for it in lines)
    assert "On n1, as root" in lines[0]


def test_in_words_all_are_shown(told: Any) -> None:
    text = "\n".join(in_words(told))
    assert all(f"{it['name']} ({it['risk']})" in text for it in told["remedies"])


def test_what_disrupts_is_left_out_of_a_safe_plan_and_only_the_first_plan_is_taken() -> None:
    disrupts = step("kill", "-CHLD", "9", risk="disruptive")
    told = of(
        plan(stop("a.service")),
        plan(step("kill", "-CHLD", "7"), name="reap_defunct", subject="unit:a.service"),
        plan(step("kill", "-CHLD", "8"), disrupts, name="reap_defunct", subject="unit:b"),
    )
    assert commands(told) == ["systemctl stop -- a.service", "kill -CHLD 8"]


@pytest.mark.parametrize("bad", ["\x1b[2J", "a\rb", "a\nb", "b.service", "a.service;id"])
def test_a_command_of_another_shape_is_not_offered(bad: str) -> None:
    told = of(plan(stop("a.service"), stop(bad)))
    assert commands(told) == []
    assert any(f"left out: stop_leaking_unit ({REFUSED})" in it for it in as_script(told, "n1"))
    assert any(REFUSED in it for it in in_words(told)) and all(it.isprintable() for it in in_words(told))


def test_what_a_command_reads_is_on_its_line() -> None:
    path = "/etc/systemd/system/a.service.d/90-zombiescope.conf"
    write = step("install", "-D", "-m", "644", "-T", "/dev/stdin", path, stdin="[Service]\nRestart=no\n")
    (line,) = commands(of(plan(write)))
    assert line == f"printf '%s\\n' '[Service]' Restart=no | install -D -m 644 -T /dev/stdin {path}"
    assert commands(of(plan(write | {"stdin": "[Service]\nExecStart=/tmp/x\n"}))) == []


@given(st.text(), st.text(), st.text())
def test_no_line_of_a_pod_escapes(name: str, says: str, word: str) -> None:
    told = of(plan(step("echo", word, says=says), name=name), plan(step("kill", "-CHLD", word), name="reap_defunct"))
    lines = [*as_script(told, name), *in_words(told)]
    assert all(line.isprintable() for line in lines)
    assert not any("echo" in line.split() for line in lines if line.lstrip().startswith(("$", "echo")))
