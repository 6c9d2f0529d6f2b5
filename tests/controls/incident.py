"""The incident on 192 cores over twelve hours: every stage on core 137, among 300 innocent saturated cores."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from tests.controls.generated import T0, Floats, Node
from tests.controls.pieces import Process
from tests.core.test_samples import WALK_ALL
from tests.diagnosis.incident import LOST

CORE, HOURS = 137, 12
OTHERS = 300  # saturated cores elsewhere: builds, exits of large programs
BURSTS = 6  # in the twelve hours: kubelet walks, the core is full, the card is reset
LONG = 15  # seconds of each
UNIT, FAMILY = "unit:ecs.service", "family:/system.slice/ecs.service"
WORK = "main;read;ksys_read;vfs_read;ext4_file_read_iter;copy_page_to_iter"


def incident(*, without: Collection[str] = (), seed: int = 0, hours: int = HOURS) -> Node:
    """All of it, or some pieces of evidence left out."""
    node = Node(cores=192, seconds=hours * 3600, seed=seed)
    node.spend(slice(None), user=0.3, system=0.05, softirq=0.01)
    for name, make in _PIECES.items():
        if name not in without:
            make(node)
    if "stacks" in without:
        node.unseen |= {"samples_total", "kernel_symbols"}
    elsewhere = node.made.choice([it for it in range(node.cores) if it != CORE], OTHERS)
    for cpu, start in zip(elsewhere, node.made.integers(60, node.seconds - 60, OTHERS), strict=True):
        length = int(node.made.integers(2, 9))
        node.spend([cpu], when=slice(start, start + length), system=0.98, user=0.01, spread=0.003)
    return node


def _bursts(node: Node) -> list[int]:
    """The seconds at which they begin."""
    return [int((place + 0.5) * node.seconds / BURSTS) for place in range(BURSTS)]


def _full(node: Node, busy: float, else_: float) -> Floats:
    found = np.full(node.seconds, else_)
    for start in _bursts(node):
        found[start : start + LONG] = busy
    return found


def _agent(node: Node) -> None:
    """A unit that fails and is restarted every five seconds; each run leaves one dying cgroup."""
    times = np.arange(node.seconds // 5 + 1, dtype=float)
    node.gauge("unit_restarts_total", UNIT, 61_000 + times, pace=5)
    failing = "activating (auto-restart), NRestarts=61000, Result=exit-code, ExecMainStatus=1"
    node.texts["unit_restarts_total", UNIT] = failing
    for what, text in (
        ("unit_cgroup", "/system.slice/ecs.service"),
        ("unit_loops_for_ever", "restarted whenever it ends, forever: its start limit is switched off"),
    ):
        node.gauge(what, UNIT, np.ones(len(times)), pace=5)
        node.texts[what, UNIT] = text
    made = np.floor(np.arange(node.seconds + 1) / 5)
    for what in ("births", "removals", "releases"):
        node.gauge(f"cgroup_{what}_total", FAMILY, made * (what != "releases"))
        node.texts[f"cgroup_{what}_total", FAMILY] = "/system.slice/ecs.service"


def _dying(node: Node) -> None:
    many = node.seconds // 60 + 1
    node.gauge("kernel_release", "node", np.ones(many), pace=60)
    node.texts["kernel_release", "node"] = "5.4.0-1103-aws"
    node.dying(60_500 + 12.0 * np.arange(many), live=700.0)


def _walk(node: Node) -> None:
    node.sampled("kubelet[812]", WALK_ALL, CORE, _full(node, 0.97, 0.0))
    node.process(Process("kubelet", 812, user=0.2, system=0.1, delay=0.01, cpu=CORE))
    for cpu in range(0, node.cores, 12):
        node.sampled(f"trainer[{4000 + cpu}]", WORK, cpu, 0.05)


def _core(node: Node) -> None:
    for start in _bursts(node):
        node.spend([CORE], when=slice(start, start + LONG), system=0.98, user=0.01, spread=0.003)


def _starved(node: Node) -> None:
    node.thread(f"ksoftirqd/{CORE}", run=0.0005, delay=_full(node, 0.95, 0.0005))


def _card(node: Node) -> None:
    served = {queue: (queue * 24 + 5) % node.cores for queue in range(8)} | {5: CORE}
    for queue, cpu in served.items():
        subject = f"irq:{40 + queue}"
        node.gauge("nic_irq_cpu", subject, np.full(node.seconds // 60 + 1, float(cpu)), pace=60)
        node.texts["nic_irq_cpu", subject] = f"eth0-Tx-Rx-{queue}"


def _resets(node: Node) -> None:
    for start in _bursts(node):
        stuck = (
            "TX q 5 is paused for too long (threshold 5000000). Time since last napi 7400000 usec. napi scheduled: 1"
        )
        node.lines += [(start + 8.0, f"ena 0000:00:05.0 eth0: {stuck}")]
        node.lines += [(start + 8.001, "ena 0000:00:05.0 eth0: Resetting the device")]


def _job(node: Node) -> None:
    text = (
        f"The node with node id: {LOST} and address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead because the "
        "detector has missed too many heartbeats from it."
    )
    subject, route = f"raynode:{LOST}", "route:10.0.0.0/24"
    node.gauge("nic_route", route, np.zeros(node.seconds // 60 + 1), pace=60)
    node.texts["nic_route", route] = "eth0"
    node.gauge("ray_node", subject, np.full(node.seconds // 60 + 1, 77.0), pace=60)
    node.texts["ray_node", subject] = "10.0.0.7 /kubepods/burstable/pod1/ray"
    node.columns["ray_event"] = {subject: (np.array([T0 + _bursts(node)[0] + 20.0]), np.array([3.0]))}
    node.texts["ray_event", subject] = text


_PIECES: dict[str, Callable[[Node], None]] = {
    "agent": _agent,
    "dying": _dying,
    "stacks": _walk,
    "core": _core,
    "starved": _starved,
    "card": _card,
    "resets": _resets,
    "job": _job,
}
PIECES = tuple(_PIECES)
