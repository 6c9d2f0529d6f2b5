"""Stacks of simulated nodes: some hundred that every node has, and one that grows on the sick ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.fleet.schemas import TABLES, function_id, stack_id
from zombiescope.fleet.simulated.hour_rows import World, micro, moment, sick_now, there
from zombiescope.fleet.simulated.population import Ints

STACKS, SHOWN = 240, 24  # there are; of one node and hour
WALK = (
    "entry_SYSCALL_64",
    "do_syscall_64",
    "ksys_read",
    "vfs_read",
    "seq_read",
    "memcg_numa_stat_show",
    "mem_cgroup_nr_lru_pages",
)
COMMS = ("python", "raylet", "kubelet", "containerd", "nccl", "swapper")
_LAYERS = ("tcp", "nvme", "futex", "page", "dentry", "sched", "skb", "ext4", "nvidia", "epoll")


def _functions(stack: int) -> tuple[tuple[str, bool], ...]:
    if stack == 0:
        return (("main.readStats", False), *((name, True) for name in WALK))
    draw = np.random.default_rng([stack, 5])
    layer = _LAYERS[stack % len(_LAYERS)]
    depth = int(draw.integers(2, 9))
    kernel = [(f"{layer}_{it}_{int(draw.integers(0, 40))}", True) for it in range(depth)]
    return (("main", False), (f"work_{stack % 31}", False), *kernel)


def profile(world: World, hour: int) -> dict[str, pa.Table]:
    """samples, stacks, functions and function_names."""
    draw = np.random.default_rng([world.fleet.seed, 83, hour])
    here = there(world, hour)
    chosen = draw.integers(1, STACKS, (len(here), SHOWN))
    chosen[:, 0] = 0
    spent = draw.exponential(20.0, chosen.shape)
    spent[:, 0] = np.where(
        sick_now(world, hour)[here], draw.uniform(300, 900, len(here)), draw.uniform(0, 3, len(here))
    )
    names: dict[int, tuple[str, bool]] = {}
    stacks: list[tuple[int, list[int]]] = []
    for stack in range(STACKS):
        ids = []
        for name, kernel in _functions(stack):
            ids.append(function_id(name, "", kernel=kernel))
            names[ids[-1]] = (name, kernel)
        stacks.append((stack_id(np.array(ids, np.int64).tobytes()), ids))
    at = moment(world, hour).start
    node, rows = np.repeat(world.ids[here], SHOWN), chosen.ravel()
    seconds = spent.ravel().round(2).astype(np.float32)
    comms = np.array(COMMS)[np.where(rows == 0, 2, rows % len(COMMS))]
    tables = {
        "samples": {
            "node_id": node,
            "ts": micro(np.full(len(node), at)),
            "comm": comms,
            "stack": np.array([it[0] for it in stacks], np.int64)[rows],
            "seconds": seconds,
        },
        "stacks": {
            "node_id": np.repeat(world.ids[here[:1]], len(stacks)),
            "stack": [it[0] for it in stacks],
            "functions": [it[1] for it in stacks],
        },
        "function_names": {
            "node_id": np.repeat(world.ids[here[:1]], len(names)),
            "function": list(names),
            "name": [it[0] for it in names.values()],
            "module": [""] * len(names),
            "kernel": [it[1] for it in names.values()],
        },
        "functions": _rollup(node, rows, seconds, [it[1] for it in stacks], at),
    }
    return {name: pa.table(columns, schema=TABLES[name].schema) for name, columns in tables.items()}


def _rollup(node: Any, rows: Ints, seconds: Any, stacks: list[list[int]], at: int) -> dict[str, Any]:
    """Of each node and function: the time in which it was on top, and in which it was on the stack."""
    known = sorted({function for stack in stacks for function in stack})
    place = {function: number for number, function in enumerate(known)}
    nodes, of = np.unique(node, return_inverse=True)
    own, total = (np.zeros((len(nodes), len(known)), np.float32) for _ in range(2))
    for stack, functions in enumerate(stacks):
        mine = rows == stack
        np.add.at(own, (of[mine], place[functions[-1]]), seconds[mine])
        for function in set(functions):
            np.add.at(total, (of[mine], place[function]), seconds[mine])
    who, what = np.nonzero(total)
    return {
        "node_id": nodes[who],
        "ts": micro(np.full(len(who), at)),
        "function": np.array(known, np.int64)[what],
        "self_seconds": own[who, what],
        "total_seconds": total[who, what],
    }
