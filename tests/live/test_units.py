"""Real systemd, real leaks: the unit that leaks is named with its dose, one that only loops is not blamed for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conftest import Run

from zombiescope.lab import crash_loop, leak_beside_crash_loop
from zombiescope.lab._judge import judge

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]


def diagnosed(zombiescope: Run, seconds: float) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(
        # What other tests had the driver say before is not of this fault.
        zombiescope(
            "diagnose", "--seconds", f"{seconds:g}", "--format", "json", "--set", "kmsg.PAST=0", expect=1
        ).stdout
    )
    return shape


def found(shape: dict[str, Any], sign: str) -> list[str]:
    return [it["subject"] for it in shape["findings"] if it["sign"] == sign]


def blamed_for_the_dead(shape: dict[str, Any]) -> list[tuple[str, str]]:
    """Who is joined to the dead memory cgroups."""
    ends = [(shape["findings"][it["cause"]], shape["findings"][it["effect"]]) for it in shape["links"]]
    dead = ("zombie_cgroups", "controller:memory")
    return [(cause["sign"], cause["subject"]) for cause, effect in ends if (effect["sign"], effect["subject"]) == dead]


def test_a_leaking_crash_loop_is_the_root_with_its_dose(zombiescope: Run) -> None:
    with crash_loop.run():
        shape = diagnosed(zombiescope, 8.0)  # some forty restarts
    assert ("crash_looping_unit", "unit:ecs.service") in blamed_for_the_dead(shape)
    (link,) = (it for it in shape["links"] if it["law"] == "crash_looping_unit_to_zombie_cgroups")
    dose = next(it for it in link["grounds"] if it["kind"] == "dose")
    restarts = [it["value"] for it in dose["evidence"] if it["what"] == "unit_restarts_total"]
    dead = [it["value"] for it in dose["evidence"] if it["what"] == "cgroups_dying"]
    # One for each restart; the two counters are read some milliseconds apart, and others on the machine make some too.
    assert restarts[1] - restarts[0] >= 10
    assert dead[1] - dead[0] == pytest.approx(restarts[1] - restarts[0], abs=5)
    loop = next(it for it in shape["findings"] if it["sign"] == "crash_looping_unit")
    assert "its start limit is switched off" in loop["says"] and "last exit code 1" in loop["says"]


@pytest.mark.long  # each score of the lab makes the same
def test_of_a_loop_and_a_leak_at_once_the_leak_is_blamed(zombiescope: Run) -> None:
    with leak_beside_crash_loop.run():
        shape = diagnosed(zombiescope, leak_beside_crash_loop.SECONDS)
    assert found(shape, "crash_looping_unit") == ["unit:zslab-false.service"]
    ours = [
        subject for _, subject in blamed_for_the_dead(shape) if "zslab-beside" in subject or subject.startswith("unit:")
    ]
    assert ours == ["family:/zslab-beside-<n>/system.slice/zslab-supervisor.service/<id>"]
    assert judge(leak_beside_crash_loop.TRUTH, shape).right
