"""drain_and_reboot: only for harm that was seen; drained by us or by kured, on any other host advice."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plans
from tests.signs.test_soft_lockup import soft
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Case, Ground, Link, Plan, Reading
from zombiescope.remedies import drain_and_reboot

KUBELET = read("unit_active", "unit:kubelet.service", 1, 0.0)
OTHER = read("unit_active", "unit:cron.service", 1, 0.0)
LOCKUP = read("kernel_log", "node", 0, 0.0, soft(3, 22))


def planned(*readings: Reading, host: str = "worker-1") -> Plan:
    (plan,) = plans(node([LOCKUP, *readings]), "drain_and_reboot", "soft_lockup", host=host)
    assert plan.risk == "disruptive" and plan.proof == ("soft_lockup",)
    return plan


def test_cordoned_drained_and_marked_and_each_can_be_taken_back() -> None:
    cordon, drain, mark, rest = planned(KUBELET).steps
    assert cordon.argv[-2:] == ("cordon", "worker-1") and cordon.undo[-2:] == ("uncordon", "worker-1")
    assert drain.argv[-3:] == ("drain", "worker-1", "540")
    assert all("zombiescope.kubernetes.drain_command" in it for it in (cordon.argv, cordon.undo, drain.argv))
    assert mark.argv == ("touch", "/var/run/reboot-required") and mark.keeps == ("/var/run/reboot-required",)
    assert not rest.argv and "systemctl reboot" in rest.says


def test_pods_show_a_kubelet_where_units_cannot_be_seen() -> None:
    pod = read("pod_info", "pod:0a1b", 1, 0.0, "pod default/web-1")
    assert len(planned(pod).steps) == 4
    assert planned(read("pod_info", "pod:0a1b", 0, 0.0, "pod default/web-1")).advice


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
