"""`zombiescope gate` on machines: this one at one look, and a soak of ones that leak and do not."""

from __future__ import annotations

import json

import pytest
from tests.cli.gate_reports import gated
from tests.conftest import Run

from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._units import LEAKS, restarted


def test_this_machine_at_one_look(zombiescope: Run) -> None:
    done = zombiescope("gate", "--max-memcg", "1", "--format", "json")
    shape = json.loads(done.stdout)
    (cgroups,) = (it for it in shape["rules"] if it["rule"] == "memory_cgroups")
    assert cgroups["state"] in ("fail", "blind") and done.returncode == {"fail": 1, "blind": 3}[shape["verdict"]]
    assert "growing_cgroups" not in {it["rule"] for it in shape["rules"]}, "growth takes a soak"


@pytest.mark.kernel  # what others free would hide the growth
@pytest.mark.usefixtures("can_boot")
def test_a_machine_with_a_leaking_unit_does_not_pass_a_soak(zombiescope: Run) -> None:
    units = {"zslab-leak.service": restarted(LEAKS, 0.05)}
    with booted(units, label="gate-leak") as systemd, asked_by_diagnosis(systemd):
        shape = gated(zombiescope, "--soak", "0.12", "--max-memcg", "100000", expect=1)
        one_look = gated(zombiescope, "--max-memcg", "100000", expect=1)
    objections = {(it["rule"], it["subject"]): it["says"] for it in shape["objections"]}
    assert ("looping_unit", "unit:zslab-leak.service") in objections
    assert "an hour" in objections["growing_cgroups", "controller:memory"]
    assert ("looping_unit", "unit:zslab-leak.service") in {(it["rule"], it["subject"]) for it in one_look["objections"]}
    assert shape["occasion"] == "soak" and 6 < shape["seconds"] < 60


@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.usefixtures("can_boot")
def test_a_machine_without_one_passes_or_says_what_a_short_soak_cannot_see(zombiescope: Run) -> None:
    quiet = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 1000\n"
    with booted({"zslab-quiet.service": quiet}, label="gate-quiet") as systemd, asked_by_diagnosis(systemd):
        done = zombiescope("gate", "--soak", "0.1", "--max-memcg", "100000", "--format", "json")
    shape = json.loads(done.stdout)
    # Others on this machine may make cgroups while we look, but no unit of this systemd loops.
    loops = [it["subject"] for it in shape["objections"] if it["rule"] == "looping_unit"]
    assert not [it for it in loops if it.startswith("unit:") or "zslab-gate-quiet" in it]
    growth = next(it for it in shape["rules"] if it["rule"] == "growing_cgroups")
    assert growth["state"] in ("blind", "fail")
    if growth["state"] == "blind":
        assert any("too short for a leak" in it["why"] for it in shape["blind"])
