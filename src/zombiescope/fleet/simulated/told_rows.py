"""What simulated nodes tell of an hour: events, findings with what they cost, and how jobs ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.fleet.hours import SECONDS
from zombiescope.fleet.simulated import population as who
from zombiescope.fleet.simulated.hour_rows import RESETS, World, micro, moment
from zombiescope.fleet.simulated.population import Bools, Floats, Ints

OWN_FAULT = 0.05  # of the jobs fail by themselves
HIT = 0.6  # of the jobs that run during a reset fail


def told(world: World, hour: int, here: Ints, dead: Floats, sick: Bools) -> dict[str, dict[str, Any]]:
    draw = np.random.default_rng([world.fleet.seed, 71, hour])
    counts = draw.poisson(np.where(sick[here], RESETS, 0.0))
    node = np.repeat(here, counts)
    at = np.sort(moment(world, hour).start + draw.uniform(0, SECONDS - 1, len(node)))
    return {
        "events": {
            "node_id": world.ids[node],
            "ts": micro(at),
            "kind": ["driver_reset"] * len(node),
            "subject": ["nic:eth0"] * len(node),
            "detail": ["ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000). Time since last napi"]
            * len(node),
        },
        "findings": _findings(
            world, hour, here, dead, sick, dict(zip(*np.unique(node, return_counts=True), strict=True))
        ),
        "jobs": _jobs(world, hour, here, node, at),
    }


def _findings(world: World, hour: int, here: Ints, dead: Floats, sick: Bools, resets: dict[Any, Any]) -> dict[str, Any]:
    it = world.fleet
    draw = np.random.default_rng([it.seed, 73, hour])
    rows: list[tuple[Any, ...]] = []
    for node in here.tolist():
        leaks = it.leaks[node] and hour + 0.99 >= it.onset[node] and hour < it.cured[node]
        many = int(resets.get(node, 0))
        waited, burnt = round(float(draw.uniform(0.5, 2.5)), 2), round(float(draw.uniform(0.1, 0.9)), 2)
        if leaks:
            role = "root" if sick[node] else "noted"
            soon = round(70_000 / max(it.restarts[node], 1) * 3600)
            held = float(dead[node]) * 200_000
            says = f"{who.LEAKER} restarts {it.restarts[node]:.0f} times an hour; {dead[node]:,.0f} dying cgroups"
            rows.append((node, "crash_looping_unit", f"unit:{who.LEAKER}", role, says, many, waited, burnt, held, soon))
            if sick[node]:
                says = "kubelet walks dying cgroups"
                rows.append((node, "cgroup_walker", "process:kubelet[1012]", "effect", says, 0, 0.0, burnt, 0.0, None))
        elif sick[node]:
            says = "softirqs wait on a saturated core"
            rows.append((node, "softirq_storm", "cpu:7", "root", says, many, waited, burnt, 0.0, None))
        if many and not world.blind[node]:
            says = f"eth0 was reset {many} times"
            rows.append((node, "driver_reset", "nic:eth0", "effect", says, many, None, None, None, None))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 10
    start = moment(world, hour).start
    return {
        "node_id": world.ids[np.array(columns[0], np.int64)],
        "started": micro(np.full(len(rows), start)),
        "ended": micro(np.full(len(rows), start + SECONDS)),
        "sign": list(columns[1]),
        "subject": list(columns[2]),
        "role": list(columns[3]),
        "says": list(columns[4]),
        "broken": list(columns[5]),
        "waited_cores": list(columns[6]),
        "burnt_cores": list(columns[7]),
        "held_bytes": list(columns[8]),
        "soon_seconds": list(columns[9]),
    }


def _jobs(world: World, hour: int, here: Ints, hit: Ints, at: Floats) -> dict[str, Any]:
    """Jobs that end in this hour: each lasts for one to three hours; a reset while it runs may end it."""
    draw = np.random.default_rng([world.fleet.seed, 79, hour])
    end_of = moment(world, hour)
    node = here[draw.random(len(here)) < 0.5]
    end = end_of.start + draw.uniform(0, SECONDS, len(node))
    start = end - draw.uniform(0.5, 3, len(node)) * SECONDS
    failed = draw.random(len(node)) < OWN_FAULT
    detail = np.where(failed, "exit code 1", "").astype(object)
    for place, its in enumerate(node.tolist()):
        for reset in at[hit == its]:
            if start[place] < reset < end[place] and draw.random() < HIT:
                failed[place], end[place], detail[place] = True, reset + 8, "connection to the GCS was lost"
                break
    end = np.minimum(end, end_of.end - 1)
    return {
        "node_id": world.ids[node],
        "started": micro(start),
        "ended": micro(end),
        "job": [f"job-{hour:03d}-{it:05d}" for it in node.tolist()],
        "kind": ["ray"] * len(node),
        "outcome": np.where(failed, "failed", "succeeded").tolist(),
        "detail": detail.tolist(),
    }
