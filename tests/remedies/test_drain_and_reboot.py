"""drain_and_reboot: only for harm that was seen; drained by kubectl or by kured, on any other host advice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plans, to_nobody
from tests.signs.test_soft_lockup import soft
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Case, Ground, Host, Link, Plan, Reading, Unreadable
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy
from zombiescope.places import own_python
from zombiescope.remedies import drain_and_reboot
from zombiescope.treatment.apply import Machine, apply, undo
from zombiescope.treatment.ledger import Ledger

KUBELET = read("unit_active", "unit:kubelet.service", 1, 0.0)
OTHER = read("unit_active", "unit:cron.service", 1, 0.0)
LOCKUP = read("kernel_log", "node", 0, 0.0, soft(3, 22))


def planned(*readings: Reading, host: str = "worker-1") -> Plan:
    (plan,) = plans(node([LOCKUP, *readings]), "drain_and_reboot", "soft_lockup", host=host)
    assert plan.risk == "disruptive" and plan.proof == ("soft_lockup",)
    return plan


def test_cordoned_drained_and_marked_and_each_can_be_taken_back() -> None:
    cordon, drain, mark, rest = planned(KUBELET).steps
    assert cordon.argv == ("kubectl", "cordon", "worker-1") and cordon.undo == ("kubectl", "uncordon", "worker-1")
    assert drain.argv[:3] == ("kubectl", "drain", "worker-1")
    assert "--force" not in drain.argv and "--disable-eviction" not in drain.argv, "budgets are respected"
    assert mark.argv == ("touch", "/var/run/reboot-required") and mark.keeps == ("/var/run/reboot-required",)
    assert not rest.argv and "systemctl reboot" in rest.says


def test_kured_does_it_all_by_itself() -> None:
    kured = read("pod_info", "pod:0a1b", 1, 0.0, "pod kube-system/kured-x7k2p")
    (step,) = planned(KUBELET, kured).steps
    assert step.argv[0] == "touch" and "kured" in step.says
    gone = read("pod_info", "pod:0a1b", 0, 0.0, "pod kube-system/kured-x7k2p")
    assert len(planned(KUBELET, gone).steps) == 4


@pytest.mark.parametrize(
    ("readings", "host", "says"),
    [
        ([OTHER], "worker-1", "systemctl reboot"),
        ([OTHER, read("unit_active", "unit:kubelet.service", 0, 0.0)], "worker-1", "systemctl reboot"),
        ([], "worker-1", "whether a kubelet runs here is not known"),
        ([KUBELET], "", "name is not known"),
        ([KUBELET], "--all", "name is not known"),
    ],
    ids=["no kubelet", "a kubelet at rest", "units unseen", "no name", "a name that is an option"],
)
def test_elsewhere_it_is_advice(readings: list[Reading], host: str, says: str) -> None:
    plan = planned(*readings, host=host)
    assert plan.advice and says in plan.steps[0].says


@pytest.mark.parametrize(("sign", "rebooted"), [("soft_lockup", False), ("zombie_cgroups", True)])
def test_a_lockup_whose_cause_is_known_is_no_reason_to_reboot_but_what_a_leak_left_behind_is(
    sign: str, rebooted: bool
) -> None:
    """What caused a lockup has a fix of its own; dying cgroups stay after what made them has stopped."""
    cause, found, harm = (finding(it, f"x:{it}", LOCKUP) for it in ("cause", sign, "harm"))
    grounds = (Ground(kind="place", says="the same core", evidence=(LOCKUP,)),)
    links = tuple(Link(law="x", cause=a, effect=b, grounds=grounds) for a, b in ((cause, found), (found, harm)))
    case = Case(node="n", kernel="6.8.0", span=found.span, findings=(cause, found, harm), links=links)
    assert (drain_and_reboot.plan(found, case, node([])) is not None) == rebooted


def test_dead_cgroups_that_nobody_pays_for_are_no_reason_to_reboot() -> None:
    slow = [
        read(what, "file:memory.stat", 0.4, 1.0, "on core 0") for what in ("stat_read_seconds", "stat_read_cpu_seconds")
    ]
    signs = ("zombie_cgroups", "slow_stat_read")
    assert not plans(node([*v1([68_680] * 3), KUBELET]), "drain_and_reboot", *signs)
    (plan,) = plans(node([*v1([68_680] * 3), *slow, KUBELET]), "drain_and_reboot", *signs)
    assert plan.cures.sign == "zombie_cgroups"


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that writes down what it was asked, and fails where the file `fails` says so."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\n! grep -qs "$1" {folder}/fails\n')
    program.chmod(0o755)
    monkeypatch.setattr(own_python, "PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(drain_and_reboot, "MARKER", str(tmp_path / "reboot-required"))
    return folder


def test_there_and_back(kubectl: Path, tmp_path: Path) -> None:
    machine, ledger = Machine(Host(), Host()), Ledger(str(tmp_path / "ledger"))
    fix = apply(planned(KUBELET), machine, ledger, to_nobody, disruptive=True)
    assert fix.state == "finished" and (tmp_path / "reboot-required").exists()
    undo(fix.id, machine, ledger, to_nobody)
    asked = (kubectl / "asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["cordon", "drain", "uncordon"]
    assert not (tmp_path / "reboot-required").exists()


def test_a_drain_that_fails_ends_it_before_the_marker(kubectl: Path, tmp_path: Path) -> None:
    (kubectl / "fails").write_text("drain\n")
    machine, ledger = Machine(Host(), Host()), Ledger(str(tmp_path / "ledger"))
    with pytest.raises(Unreadable, match="kubectl drain worker-1"):
        apply(planned(KUBELET), machine, ledger, to_nobody, disruptive=True)
    assert not (tmp_path / "reboot-required").exists() and ledger.fixes()[0].state == "failed"
    undo("1", machine, ledger, to_nobody)
    assert (kubectl / "asked").read_text().splitlines()[-1] == "uncordon worker-1"


def test_of_several_remedies_it_comes_last() -> None:
    everything = healthy("remedies")
    signs = {name: healthy("signs")[name] for name in ("soft_lockup", "zombie_cgroups")}
    timeline = node([LOCKUP, KUBELET, *v1([68_620.0 + 2 * second for second in range(61)])])
    case = examine(timeline, node="worker-1", kernel="5.4.0", signs=signs, laws={}, questions={}, remedies=everything)
    names = [plan.name for plan in case.plans]
    assert len(names) > 1 and names[-1] == "drain_and_reboot", names
