"""Let other cores serve the network queues of a core that has no time for them.

Interrupts go to the idlest cores of the same NUMA node, one each: these are nearest to the card's memory. Where one
interrupt alone fills a core, moving it would move the problem: then the advice is to spread its packets. Cores that are
isolated, without a tick (nohz_full) or exclusive to a cgroup or to a container of the kubelet's static CPU manager are
never used; where that could not be read, nothing is moved. Cores that other means give to one job alone (a taskset, a
batch system without cpusets) cannot be known.

Safe: an interrupt that is moved is not lost; packets of a connection may arrive out of order for a moment. Undo
    restores the old affinity.
Does not fix: what keeps the core busy, and may follow to another one; interrupts that the kernel manages itself,
    whose file cannot be written (every file is checked first, so nothing is changed then); what irqbalance, where it
    runs, decides next.
References: Documentation/core-api/irq/irq-affinity.rst; Documentation/networking/scaling.rst (RPS); irqbalance(1),
    --banirq.
"""

from __future__ import annotations

from itertools import cycle

import numpy as np

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.commands import in_sentence, is_card
from zombiescope.core.forms import NUMBER, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.derived.nic_queues import Queue, served

CURES = ("starved_softirq", "irq_pile_up")
RESTS_ON = {
    "nic_irq_cpu": Witness.KERNEL,
    "cpu_softirq_seconds_total": Witness.KERNEL,
    "cpu_idle_seconds_total": Witness.KERNEL,
    "softnet_processed_total": Witness.KERNEL,
    "cpu_reserved": Witness.KERNEL,
}
MOST = 16  # interrupts moved at once, the busiest: two cards with a queue for each of eight cores
BALANCER = "unit:irqbalance.service"
_FULL = (*CURES, "saturated_core")
_AFFINITY = "/proc/irq/{irq}/smp_affinity_list"
FORMS = (Form(argv=("tee", _AFFINITY), stdin="{core}\n", keeps=(_AFFINITY,), varies={"irq": NUMBER, "core": NUMBER}),)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    kind, _, number = finding.subject.partition(":")
    if kind != "cpu":
        return None
    queues = sorted(served(timeline, int(number)), key=lambda queue: -_served(queue, finding, timeline))
    others = _idlest(int(number), finding, case, timeline)
    if not queues or not others:
        return None
    if finding.sign == "irq_pile_up" and sum(_served(queue, finding, timeline) > 0 for queue in queues) < 2:
        return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=(_spread(queues[0], others),))
    if why := _unknown(timeline):
        says = f"which cores are set apart could not be read ({harmless(why)}), so none is chosen: move it yourself"
        writes = (in_sentence("tee", _file(queue), stdin="CORE\n") for queue in queues[:MOST])
        steps = tuple(Step(says=f"{says}: {write}") for write in writes)
        return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=steps)
    moves = (_move(queue, core) for queue, core in zip(queues[:MOST], cycle(others), strict=False))
    steps = (*_balanced(queues[:MOST], timeline), *moves)
    return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=steps)


def _served(queue: Queue, finding: Finding, timeline: Timeline) -> float:
    """Interrupts a second during the finding."""
    rate = timeline.rate("nic_interrupts_total", f"irq:{queue.irq}").between(finding.span)
    return float(np.nan_to_num(rate.mean())) if len(rate) else 0.0


def _idlest(cpu: int, finding: Finding, case: Case, timeline: Timeline) -> list[int]:
    """Other cores of the same NUMA node, or all others where there is none, the idlest first.

    None that has no time for its interrupts either: two cores would hand theirs to each other.
    """
    idle, edges = {}, np.array([finding.span.start, finding.span.end])
    for subject in timeline.subjects("cpu_idle_seconds_total", "cpu"):
        before, after = timeline.series("cpu_idle_seconds_total", subject).sampled(edges)
        idle[int(subject[4:])] = float(np.nan_to_num(after - before))
    nodes = {int(it.subject[4:]): it.value for it in timeline.latest("cpu_numa_node")}
    # Set apart for somebody's own work: an interrupt there is what its owner wanted to avoid.
    reserved = {int(it.subject[4:]) for it in timeline.latest("cpu_reserved")}
    full = {int(it.subject[4:]) for it in case.findings if it.sign in _FULL and it.subject.startswith("cpu:")}
    others = [core for core in idle if core != cpu and core not in reserved | full]
    near = [core for core in others if nodes.get(core) == nodes.get(cpu)] or others
    return sorted(near, key=lambda core: (-idle[core], core))


def _unknown(timeline: Timeline) -> str:
    """Why it is not known which cores are set apart; "" if it is."""
    looks = timeline.looks("cpu_reserved")
    if not len(looks):
        return "nothing looked for cpu_reserved"
    return "" if looks.latest.value else looks.latest.text or "no reason given"


def _file(queue: Queue) -> str:
    return _AFFINITY.format(irq=queue.irq)


def _move(queue: Queue, core: int) -> Step:
    path = _file(queue)
    return Step(
        says=f"let core {core} serve interrupt {harmless(queue.words)}",
        argv=("tee", path),
        stdin=f"{core}\n",
        keeps=(path,),
    )


def _balanced(queues: list[Queue], timeline: Timeline) -> tuple[Step, ...]:
    """irqbalance moves interrupts too, every ten seconds, and does not know why we moved one."""
    bans = " ".join(f"--banirq={queue.irq}" for queue in queues)
    if not timeline.looked("unit_active"):
        return (Step(says=f"whether irqbalance runs is not known; if it does, start it with {bans}"),)
    runs = timeline.series("unit_active", BALANCER)
    if not len(runs) or not runs.latest.value:
        return ()
    return (Step(says=f"irqbalance runs and may move them back within seconds: start it with {bans}, or stop it"),)


def _spread(queue: Queue, others: list[int]) -> Step:
    """The cores that would take packets, in the file's format: hexadecimal, a comma after each 32 bits."""
    digits = f"{sum(1 << core for core in others):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    mask = ",".join(digits[at : at + 8] for at in range(0, len(digits), 8)).lstrip("0")
    where = f"/sys/class/net/{queue.nic if is_card(queue.nic) else 'NIC'}/queues/rx-0/rps_cpus"
    write = in_sentence("tee", where, stdin=mask + "\n")
    return Step(
        says=f"interrupt {harmless(queue.words)} is the only busy one there and would fill another core the same way: "
        f"use more queues (ethtool -L), or spread its packets: {write}"
    )
