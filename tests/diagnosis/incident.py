"""The incident as a recording, small and whole, with each of its stages open to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.core.test_samples import WALK_ALL
from tests.nodes import Sampled, cores, node, read
from tests.signs.test_crash_looping_unit import churn, restarts
from tests.signs.test_starved_softirq import thread
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline

SECONDS = 120
CORE = 3
LOST = "a4c0f034af883efb560b70b1308b9f0bd1f38873aad9faf54f68fc3c"
BURSTS = ((30, 45), (70, 85))  # seconds in which kubelet walks and its core drowns
RESETS = (38.0, 78.0)
BUSY: Mapping[str, float] = {"system": 0.98, "user": 0.01}
IDLE: Mapping[str, float] = {"user": 0.02}


def within(second: float) -> bool:
    return any(start <= second < end for start, end in BURSTS)


def agent(unit: str = "ecs.service", leaks: bool = True) -> list[Reading]:
    """A unit that is restarted once a second; each run leaves one dead cgroup, or none."""
    made = list(range(SECONDS + 1))
    return [
        *restarts([float(second) for second in made[::5]], unit),
        *churn(unit, made, [0] * len(made) if leaks else made),
    ]


def dead(grown: int = SECONDS) -> list[Reading]:
    kernel = read("kernel_release", "node", 1, 0.0, "5.4.0-1103-aws")
    return [kernel, *v1([68_500.0 + grown * second / SECONDS for second in range(SECONDS + 1)])]


def walk(who: str = "kubelet[812]", stack: str = WALK_ALL, share: float = 0.97) -> list[Sampled]:
    every = 1 / (49 * share)
    times = [start + place * every for start, end in BURSTS for place in range(int((end - start) / every))]
    return [(at, CORE, who, stack) for at in times]


def drowned(core: int = CORE) -> list[Reading]:
    spent = {core: [BUSY if within(second) else IDLE for second in range(SECONDS)]}
    return cores(spent | {it: [IDLE] * SECONDS for it in range(8) if it != core}, every=1.0)


def starved(core: int = CORE) -> list[Reading]:
    waits = [0.95 if within(second) else 0.001 for second in range(SECONDS)]
    return thread(f"ksoftirqd/{core}", waits, [0.002] * SECONDS)


def card(core: int = CORE) -> list[Reading]:
    """Six queues; the fifth is served by `core`, the others elsewhere."""
    others = {queue: (core + 1 + queue) % 8 for queue in range(5)}
    served = {**{queue: it if it != core else (core + 1) % 8 for queue, it in others.items()}, 5: core}
    return [read("nic_irq_cpu", f"irq:{40 + queue}", it, 0.0, f"eth0-Tx-Rx-{queue}") for queue, it in served.items()]


def resets() -> list[Reading]:
    lines = (
        "TX q 5 is paused for too long (threshold 5000000). Time since last napi 7400000 usec. napi scheduled: 1",
        "Resetting the device",
    )
    return [
        read("kernel_log", "node", 3, at + place / 1000, f"ena 0000:00:05.0 eth0: {line}")
        for at in RESETS
        for place, line in enumerate(lines)
    ]


def job() -> list[Reading]:
    text = (
        f"The node with node id: {LOST} and address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead because the "
        "detector has missed too many heartbeats from it."
    )
    here = read("ray_node", f"raynode:{LOST}", 77, 0, "10.0.0.7 /kubepods/burstable/pod1/ray")
    route = read("nic_route", "route:10.0.0.0/24", 0, 0, "eth0")
    return [here, route, read("ray_event", f"raynode:{LOST}", 3, RESETS[0] + 12, text)]


def incident(
    *, samples: Sequence[Sampled] | None = None, without: str = "", extra: Sequence[Reading] = (), nic: int = CORE
) -> Timeline:
    """All of it; other stacks, the card's interrupt on another core, or one part left out."""
    parts = {
        "agent": agent(),
        "dead": dead(),
        "drowned": drowned(),
        "starved": starved(),
        "card": card(nic),
        "resets": resets(),
        "job": job(),
    }
    readings = [it for name, part in parts.items() if name != without for it in part]
    taken = [] if without == "stacks" else walk() if samples is None else samples
    return node([*readings, *extra], samples=taken, hz=49)
