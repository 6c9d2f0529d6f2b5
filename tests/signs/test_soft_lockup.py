"""soft_lockup: the core, for how long and in what; stalls of RCU with the core that their second line names."""

from __future__ import annotations

from tests.nodes import T0, node, read

from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import soft_lockup


def case(*lines: tuple[float, str], unseen: dict[str, str] | None = None) -> Case:
    readings = [read("kernel_log", "node", 0, at=at, text=text) for at, text in lines]
    return examine(node(readings, unseen=unseen), signs={"soft_lockup": soft_lockup}, laws={})


def soft(cpu: int, seconds: int, who: str = "kubelet:4054") -> str:
    return f"watchdog: BUG: soft lockup - CPU#{cpu} stuck for {seconds}s! [{who}]"


def test_one_lockup_is_one_however_often_it_is_said() -> None:
    (found,) = case((0.0, soft(39, 22)), (24.0, soft(39, 45)), (48.0, soft(39, 68))).findings
    assert found.subject == "cpu:39" and found.says == "was stuck for 68.0 s in kubelet[4054] (soft lockup)"
    assert len(found.evidence) == 3
    # It began before the kernel complained.
    assert (found.span.start, found.span.end) == (T0 - 22.0, T0 + 48.0)


def test_cores_and_spells_are_told_apart() -> None:
    found = case((0.0, soft(3, 22)), (0.1, soft(5, 23)), (300.0, soft(3, 22))).findings
    assert [it.subject for it in found] == ["cpu:3", "cpu:3", "cpu:5"]


def test_a_stall_names_the_core_of_its_second_line() -> None:
    stall = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"
    core = "rcu: \t4-....: (5249 ticks this GP) idle=8ac/1/0x4000000000000000 softirq=1221/1221 fqs=2625"
    (found,) = case((0.0, stall), (0.001, core)).findings
    assert (found.subject, found.says, len(found.evidence)) == ("cpu:4", "stalled an RCU grace period", 2)
    (unknown,) = case((0.0, stall), (30.0, "usb 1-1: new device")).findings
    assert unknown.subject == "node"


def test_a_hard_lockup() -> None:
    (found,) = case((0.0, "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3"), (1.0, soft(3, 22))).findings
    assert found.says == "was stuck for 22.0 s in kubelet[4054] (soft lockup); did not take interrupts (hard lockup)"


def test_silent_and_blind() -> None:
    healthy = case((0.0, "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter."))
    assert healthy.verdicts[0].state == "clear" and healthy.verdicts[0].evidence
    assert case(unseen={"kernel_log": "operation not permitted"}).verdicts[0].state == "blind"
