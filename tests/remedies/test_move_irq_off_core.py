"""move_irq_off_core: to the idlest core nearby, never one that cannot help; and a real interrupt, there and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.nodes import cores, node, read
from tests.remedies.planned import finding, plan_for, plans
from tests.signs.test_interrupts import FLOOD, SENDER, packets, queues
from tests.signs.test_starved_softirq import thread

from zombiescope.core import Host, Plan, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.treatment.apply import Machine, apply, undo
from zombiescope.treatment.ledger import Ledger

STARVED = thread("ksoftirqd/1", [0.9] * 8, [0.0] * 8)
APART = read("cpu_reserved", "cpu:63", 1, 0.0, "isolated")  # it was looked for, and none of our cores is
IDLE = {0: 0.5, 1: 0.0, 2: 0.9, 3: 0.8}


def spent(idle: Mapping[int, float], seconds: int = 8) -> list[Reading]:
    return cores({cpu: [{"system": 1.0 - share}] * seconds for cpu, share in idle.items()}, every=1.0)


def starved(*more: Reading, idle: Mapping[int, float] = IDLE) -> Timeline:
    active = read("unit_active", "unit:cron.service", 1, 0.0)
    return node([*STARVED, *spent(idle), active, APART, *more])


def planned(timeline: Timeline, sign: str = "starved_softirq") -> Plan | None:
    found = plans(timeline, "move_irq_off_core", sign)
    return found[0] if found else None


def moves(plan: Plan | None) -> list[tuple[str, str]]:
    assert plan is not None
    return [(step.argv[1], step.stdin) for step in plan.steps if step.argv]


def test_to_the_idlest_cores_one_interrupt_each_and_the_files_are_kept() -> None:
    plan = planned(starved(*queues(1, 1, 0)))
    assert plan is not None and plan.proof == ("starved_softirq",) and plan.risk == "safe"
    assert moves(plan) == [("/proc/irq/40/smp_affinity_list", "2\n"), ("/proc/irq/41/smp_affinity_list", "3\n")]
    assert [step.keeps for step in plan.steps] == [(step.argv[1],) for step in plan.steps]
    assert plan.steps[0].says == "let core 2 serve interrupt 40 (eth0-Tx-Rx-0)"


def test_two_cores_that_both_have_no_time_do_not_hand_their_interrupts_to_each_other() -> None:
    other = thread("ksoftirqd/0", [0.9] * 8, [0.0] * 8)
    idle = {0: 0.02, 1: 0.0}
    both = node(
        [*STARVED, *other, *spent(idle), read("unit_active", "unit:cron.service", 1, 0.0), APART, *queues(1, 0)]
    )
    assert not plans(both, "move_irq_off_core", "starved_softirq")


def test_cores_near_the_card_come_first() -> None:
    nodes = [read("cpu_numa_node", f"cpu:{cpu}", value, 0.0) for cpu, value in enumerate((0, 0, 1, 1))]
    assert moves(planned(starved(*queues(1, 1), *nodes))) == [
        ("/proc/irq/40/smp_affinity_list", "0\n"),
        ("/proc/irq/41/smp_affinity_list", "0\n"),
    ]


def test_never_onto_a_core_that_is_set_apart() -> None:
    """The idlest one is isolated, the next exclusive to a cgroup."""
    apart = [
        read("cpu_reserved", f"cpu:{cpu}", 1, 0.0, words) for cpu, words in ((2, "isolated"), (3, "exclusive to /x"))
    ]
    assert {core for _, core in moves(planned(starved(*queues(1, 1), *apart)))} == {"0\n"}
    everywhere = [read("cpu_reserved", f"cpu:{cpu}", 1, 0.0, "nohz_full") for cpu in (0, 2, 3)]
    assert planned(starved(*queues(1), *everywhere)) is None


def test_where_it_is_not_known_which_cores_are_set_apart_nothing_is_moved() -> None:
    active = read("unit_active", "unit:cron.service", 1, 0.0)
    plan = planned(node([*STARVED, *spent(IDLE), active, *queues(1)], unseen={"cpu_reserved": "more than 4 folders"}))
    assert plan is not None and plan.advice
    assert "(more than 4 folders)" in plan.steps[0].says and "/proc/irq/40/smp_affinity_list" in plan.steps[0].says
    nobody = planned(node([*STARVED, *spent(IDLE), active, *queues(1)]))
    assert nobody is not None and nobody.advice and "(nothing looked for cpu_reserved)" in nobody.steps[0].says


def test_irqbalance_would_undo_it_and_that_is_said_first() -> None:
    balancer = read("unit_active", "unit:irqbalance.service", 1, 0.0)
    plan = planned(starved(*queues(1), balancer))
    assert plan is not None and plan.steps[0].says.startswith("irqbalance runs and may move them back within seconds")
    assert "--banirq=40" in plan.steps[0].says and not plan.steps[0].argv
    at_rest = read("unit_active", "unit:irqbalance.service", 0, 0.0)
    rests = planned(starved(*queues(1), at_rest))
    assert rests is not None and all(step.argv for step in rests.steps)
    unseen = planned(node([*STARVED, *spent(IDLE), APART, *queues(1)]))
    assert unseen is not None and "whether irqbalance runs is not known" in unseen.steps[0].says


@pytest.mark.parametrize(
    "timeline",
    [starved(), starved(*queues(0, 2)), starved(*queues(1), idle={1: 0.0})],
    ids=["no queue is known", "its queues are elsewhere", "one core only"],
)
def test_where_it_does_not_apply(timeline: Timeline) -> None:
    assert planned(timeline) is None


def test_not_for_a_node() -> None:
    assert plan_for(finding("starved_softirq", "node", read("x", "node", 1, 0)), "move_irq_off_core", node([])) is None


def piled(*more: Reading) -> Timeline:
    return node([*cores({0: [SENDER] * 32, 1: [FLOOD] * 32}), *packets(200, 21_000), APART, *more])


def test_a_pile_of_queues_is_spread_but_one_queue_alone_is_not_moved_about() -> None:
    assert moves(planned(piled(*queues(1, 1, 1)), "irq_pile_up")) == [
        (f"/proc/irq/{irq}/smp_affinity_list", "0\n") for irq in (40, 41, 42)
    ]
    assert len(moves(planned(piled(*queues(1, 1)), "irq_pile_up"))) == 2, "two are a pile"
    nic = read("nic_tx_timeouts_total", "nic:eth0", 0, 0.0)
    plan = planned(piled(*queues(1), nic), "irq_pile_up")
    assert plan is not None and plan.advice
    write = "`printf '%s\\n' 1 | tee /sys/class/net/eth0/queues/rx-0/rps_cpus`"
    assert plan.steps[0].says.endswith(f"spread its packets: {write}")


@pytest.mark.parametrize(("many", "mask"), [(40, "fd,ffffffff"), (68, "f,fffffffd,ffffffff"), (34, "1,ffffffff")])
def test_a_mask_of_many_cores(many: int, mask: str) -> None:
    idle = dict.fromkeys(range(many), 0.9) | {33: 0.0}
    readings = [*spent(idle), *queues(33)]
    found = finding("irq_pile_up", "cpu:33", read("cpu_interrupt_ratio", "cpu:33", 0.95, 0.0))
    plan = plan_for(found, "move_irq_off_core", node(readings))
    assert plan is not None and f"`printf '%s\\n' {mask} | tee /sys/class/net/NIC/" in plan.steps[0].says


def test_a_core_whose_idle_time_is_not_known_comes_last() -> None:
    """It was read once: nobody knows whether it is idle."""
    unknown = read("cpu_idle_seconds_total", "cpu:4", 100.0, 0.0)
    assert [core for _, core in moves(planned(starved(*queues(*[1] * 4), unknown)))] == ["2\n", "3\n", "0\n", "4\n"]


def test_no_more_than_it_can_show() -> None:
    assert len(moves(planned(starved(*queues(*[1] * 40))))) == 16


@pytest.mark.kernel
def test_a_real_interrupt_there_and_back(tmp_path: Path) -> None:
    """Of a device that is no network card: what serves the machine's own packets stays as it is."""
    nics = {irq for nic in Path("/sys/class/net").glob("*/device/../msi_irqs/*") for irq in [nic.name]}
    files = [
        path
        for path in sorted(Path("/proc/irq").glob("*/smp_affinity_list"))
        if path.parent.name not in nics and path.read_text().strip() not in ("", "0", "1")
    ]
    if not files or (os.cpu_count() or 1) < 2:
        pytest.skip(CANNOT + "no interrupt is open to more than one core")
    file, machine = files[-1], Machine(Host(), Host())
    before, ledger = file.read_text(), Ledger(str(tmp_path))
    queue = read("nic_irq_cpu", f"irq:{file.parent.name}", 1, 0.0, "eth0-Tx-Rx-0")
    plan = planned(starved(queue, idle={0: 0.9, 1: 0.0}))
    assert plan is not None
    said: list[str] = []
    fix = apply(plan, machine, ledger, said.append)
    try:
        assert fix.state == "finished" and file.read_text() == "0\n"
    finally:
        assert undo(fix.id, machine, ledger, said.append).state == "undone"
    assert file.read_text() == before
