"""One hour of a simulated fleet: the rows of every table, all nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.fleet.hours import SECONDS, Hour
from zombiescope.fleet.schemas import COUNTS, METRICS, TABLES, node_id
from zombiescope.fleet.simulated import population as who
from zombiescope.fleet.simulated.population import Bools, Floats, Ints, Population

LEAKED = 0.95  # dying cgroups that a restart leaves behind
STRETCH = 300  # seconds in which restarts are counted
BLIND = 0.04  # of the nodes cannot see the kernel's log
GONE = 0.03  # of the node-hours are missing
SKEWED = 0.02  # of the nodes have a wrong clock
RESETS = 2.5  # an hour, on a sick node


@dataclass(frozen=True, slots=True)
class World:
    """What stays the same over the hours."""

    fleet: Population
    ids: Any  # uint64 of each node
    start: int
    hours: int
    every: int  # seconds between two rows of metrics
    blind: Bools
    skew: Ints  # seconds
    level: Floats  # how busy a node is, 0 to 1


def world(fleet: Population, start: int, hours: int, every: int) -> World:
    draw = np.random.default_rng([fleet.seed, 29])
    count = len(fleet)
    return World(
        fleet=fleet,
        ids=np.array([node_id(name) for name in fleet.names], np.uint64),
        start=start,
        hours=hours,
        every=every,
        blind=draw.random(count) < BLIND,
        skew=np.where(draw.random(count) < SKEWED, draw.integers(-90, 91, count), 0),
        level=draw.beta(2, 3, count),
    )


def there(world: World, hour: int) -> Ints:
    """Nodes that sent this hour: some joined late, some left early, some hours were lost."""
    draw = np.random.default_rng([world.fleet.seed, 31])
    count = len(world.fleet)
    joined = np.where(draw.random(count) < 0.03, draw.integers(0, world.hours, count), 0)
    left = np.where(draw.random(count) < 0.03, draw.integers(1, world.hours + 1, count), world.hours)
    lost = np.random.default_rng([world.fleet.seed, 37, hour]).random(count) < GONE
    found: Ints = np.flatnonzero((joined <= hour) & (hour < np.maximum(left, joined + 1)) & ~lost)
    return found


def restarts(world: World, hour: int) -> Ints:
    """Of the leaking unit, node × stretch of five minutes; none before its onset."""
    draw = np.random.default_rng([world.fleet.seed, 41, hour])
    stretches = SECONDS // STRETCH
    at = hour + np.arange(stretches) / stretches
    rate = world.fleet.restarts[:, None] * (at[None, :] >= world.fleet.onset[:, None]) / stretches
    rate = rate * (at[None, :] < world.fleet.cured[:, None])
    found: Ints = draw.poisson(rate).astype(np.int64)
    return found


def dead_at_start(world: World) -> Floats:
    """Dying cgroups when the first hour begins: where the leak is older, days of it."""
    draw = np.random.default_rng([world.fleet.seed, 43])
    count = len(world.fleet)
    older = np.where(world.fleet.onset < 0, world.fleet.restarts * LEAKED * draw.uniform(2, 300, count), 0.0)
    start: Floats = draw.integers(0, 60, count).astype(float) + older
    return start


def gained(world: World, hour: int) -> Floats:
    """Dying cgroups more, node × stretch of five minutes."""
    draw = np.random.default_rng([world.fleet.seed, 47, hour])
    found: Floats = draw.binomial(restarts(world, hour), LEAKED).astype(float)
    return found


def sick_now(world: World, hour: int) -> Bools:
    found: Bools = world.fleet.sick & (hour + 0.5 >= world.fleet.onset) & (hour < world.fleet.cured)
    return found


def rows(world: World, hour: int, dead: Floats) -> dict[str, pa.Table]:
    """The tables but for samples; `dead` is the number of dying cgroups at the hour's start."""
    here = there(world, hour)
    made = {
        "nodes": _nodes(world, hour, here),
        "units": _units(world, hour, here),
        "metrics": _metrics(world, hour, here, dead),
        "hot_cores": _hot_cores(world, hour, here),
        **_told(world, hour, here, dead),
    }
    return {name: pa.table(columns, schema=TABLES[name].schema) for name, columns in made.items()}


def moment(world: World, hour: int) -> Hour:
    return Hour(world.start + hour * SECONDS)


def micro(seconds: Any) -> Any:
    """Times as the tables have them."""
    return pa.array((np.asarray(seconds, np.float64) * 1e6).astype(np.int64)).cast(pa.timestamp("us"))


def _nodes(world: World, hour: int, here: Ints) -> dict[str, Any]:
    it, at = world.fleet, moment(world, hour).start
    draw = np.random.default_rng([it.seed, 53])
    tuned = draw.integers(0, 4, len(it))
    began = hour >= np.floor(it.onset)
    return {
        "node_id": world.ids[here],
        "ts": micro(np.full(len(here), at)),
        "name": [it.names[n] for n in here],
        "zone": np.array(who.ZONES)[it.zone[here]],
        "image": np.array(who.IMAGES)[it.image[here]],
        "kernel": np.array(who.KERNELS)[it.kernel[here]],
        "instance_type": np.array(who.TYPES)[it.kind[here]],
        "cores": np.array(who.CORES)[it.kind[here]],
        "boot": [f"{world.ids[n]:016x}" for n in here],
        "labels": [
            [
                ("driver:ena", who.DRIVERS[it.driver[n]]),
                ("pool", who.POOLS[it.pool[n]]),
                ("canary", "yes" if np.isfinite(it.cured[n]) else "no"),
                ("package:tuned", f"2.{tuned[n]}"),
                ("package:ecs-init", "1.71.0" if it.enabled[n, 0] and began[n] else "1.70.2"),
            ]
            for n in here
        ],
        "watched_seconds": np.full(len(here), SECONDS, np.float32),
        "blind": [["driver_reset", "soft_lockup", "oom_kill"] if world.blind[n] else [] for n in here],
    }


def _units(world: World, hour: int, here: Ints) -> dict[str, Any]:
    it, at = world.fleet, moment(world, hour).start
    count = len(who.UNITS)
    running = it.active[here].copy()
    running[:, 0] &= (hour + 0.99 >= it.onset[here]) & (hour < it.cured[here])
    counted = restarts(world, hour)[here]
    node, stretch = np.nonzero(counted)
    many = np.random.default_rng([it.seed, 59, hour]).poisson(0.02, running.shape) * running  # others restart, rarely
    many[:, 0] = 0
    return {
        "node_id": np.concatenate([np.repeat(world.ids[here], count), world.ids[here][node]]),
        "ts": micro(np.concatenate([np.full(running.size, at), at + stretch * STRETCH])),
        "unit": pa.array(np.concatenate([np.tile(np.array(who.UNITS), len(here)), np.repeat(who.LEAKER, len(node))])),
        "enabled": np.concatenate([it.enabled[here].ravel(), it.enabled[here][node, 0]]),
        "active": np.concatenate([running.ravel(), np.ones(len(node), np.bool_)]),
        "restarts": np.concatenate([many.ravel(), counted[node, stretch]]).astype(np.int32),
    }


def _metrics(world: World, hour: int, here: Ints, dead: Floats) -> dict[str, Any]:
    it, draw = world.fleet, np.random.default_rng([world.fleet.seed, 61, hour])
    each = SECONDS // world.every
    shape = (len(here), each)
    cores = np.array(who.CORES, np.float32)[it.kind[here]][:, None]
    wave = draw.standard_normal(shape, np.float32)
    busy = np.clip(world.level[here, None].astype(np.float32) + 0.05 * wave, 0.01, 0.98) * cores
    more = np.cumsum(gained(world, hour)[here], axis=1)
    stretch = np.arange(each) * world.every // STRETCH
    share = (np.arange(each) * world.every % STRETCH) / STRETCH
    before = np.hstack([np.zeros((len(here), 1)), more])[:, stretch]
    count = dead[here, None] + before + share[None, :] * (more[:, stretch] - before)
    hot = (draw.random(shape, np.float32) < 0.02) & sick_now(world, hour)[here][:, None]
    columns: dict[str, Any] = {
        name: draw.integers(0, 40, shape, np.int16).astype(np.float32) / 10 for name in METRICS if name not in COUNTS
    }
    for name in (it for it in METRICS if it.startswith("pressure_")):
        columns[name] = columns[name] / 4  # seconds of a second
    columns["core_system_max"] = np.where(hot, 0.97, np.abs(wave) / 10).round(2)
    columns["core_saturated_seconds"] = np.where(hot, 3.0, 0.0)
    columns["cpu_user"] = (0.8 * busy).round(1)
    columns["cpu_system"] = (0.2 * busy + hot).round(1)
    columns["cpu_idle"] = (cores - busy).round(1)
    columns["cpu_steal"] = np.zeros(shape)
    columns["memory_available_bytes"] = (3e11 + 1e9 * wave.round(1)).round()
    columns["slab_unreclaimable_bytes"] = (2e9 + 2e5 * count).round(-6)
    columns["memcg_dying"] = count.astype(np.int32)
    columns["memcg_known"] = columns["memcg_dying"] + 240
    columns["procs_running"] = busy.astype(np.int32)
    columns["procs_blocked"] = np.zeros(shape, np.int32)
    columns["conntrack_entries"] = (4000 + 500 * wave).astype(np.int32)
    columns["nic_resets"] = np.where(hot & (draw.random(shape, np.float32) < 0.2), 0.1, 0.0)
    columns["core_system_max_cpu"] = draw.integers(0, 96, shape, np.int16)
    at = moment(world, hour).start + np.arange(each) * world.every + world.skew[here, None]
    good = ((at >= moment(world, hour).start) & (at < moment(world, hour).end)).ravel()
    found: dict[str, Any] = {"node_id": np.repeat(world.ids[here], each)[good], "ts": micro(at.ravel()[good])}
    for field in TABLES["metrics"].schema:
        if field.name in columns:
            found[field.name] = columns[field.name].ravel()[good].astype(field.type.to_pandas_dtype())
    return found


def _hot_cores(world: World, hour: int, here: Ints) -> dict[str, Any]:
    draw = np.random.default_rng([world.fleet.seed, 67, hour])
    counts = draw.poisson(np.where(sick_now(world, hour)[here], 40, 0.2))
    node = np.repeat(here, counts)
    return {
        "node_id": world.ids[node],
        "ts": micro(moment(world, hour).start + draw.integers(0, SECONDS, len(node))),
        "cpu": draw.integers(0, 96, len(node)).astype(np.int16),
        "system": draw.uniform(0.9, 1, len(node)).round(2).astype(np.float32),
        "softirq": draw.uniform(0, 0.05, len(node)).round(2).astype(np.float32),
        "busy": np.ones(len(node), np.float32),
    }


def _told(world: World, hour: int, here: Ints, dead: Floats) -> dict[str, dict[str, Any]]:
    from zombiescope.fleet.simulated.told_rows import told

    return told(world, hour, here, dead, sick_now(world, hour))
