"""Write a simulated fleet into a store, with truth.json beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.core import UserError
from zombiescope.fleet.compaction import written
from zombiescope.fleet.hours import parcel_key
from zombiescope.fleet.manifest import commit
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import NAMES_ONCE, TABLES
from zombiescope.fleet.simulated.hour_rows import LEAKED, dead_at_start, gained, moment, rows, there, world
from zombiescope.fleet.simulated.population import Population, drawn
from zombiescope.fleet.simulated.profile_rows import profile
from zombiescope.fleet.simulated.real_nodes import mixed_in, named
from zombiescope.fleet.store import Folder

START = 1_772_323_200  # 2026-03-01 00:00 UTC: the same seed always gives the same fleet
TRUTH = "truth.json"


def simulate(
    folder: str,
    nodes: int,
    hours: int,
    seed: int,
    story: str,
    every: int = 10,
    *,
    parcels: bool = False,
    recordings: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Returns the truth. The folder must be new or empty: two fleets in one would be neither.

    With `parcels` the hours lie there as nodes ship them, and wait for a compactor. `recordings` are nodes too.
    """
    real = named(recordings)
    if os.path.isdir(folder) and os.listdir(folder):
        raise UserError(f"{folder}: not empty: a simulated fleet needs a folder of its own")
    fleet = drawn(nodes, hours, seed, story)
    store = Folder(os.path.abspath(folder), durable=False)
    made = world(fleet, START, hours, every)
    dead = dead_at_start(made)
    for hour in range(hours):
        tables = rows(made, hour, dead) | profile(made, hour)
        senders = [int(made.ids[it]) for it in there(made, hour)]
        dead = dead + gained(made, hour).sum(axis=1)
        if parcels:
            for node, its in by_node(tables, senders).items():
                store.create(parcel_key(moment(made, hour), node), packed(its))
        else:
            commit(store, written(store, moment(made, hour), tables, senders, {}))
        say(f"{hour + 1} of {hours} hours")
    truth = _truth(fleet, made.blind.tolist())
    if real:
        mixed_in(store, real, moment(made, 0), hours)
        truth["recorded"] = list(real)
    with open(os.open(os.path.join(store.folder, TRUTH), os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(truth, file, indent=1)
    return truth


def by_node(tables: dict[str, pa.Table], nodes: list[int]) -> dict[int, dict[str, pa.Table]]:
    """The tables of each node. Names of functions and stacks are sent by every node."""
    found: dict[int, dict[str, pa.Table]] = {node: {} for node in nodes}
    for name, table in tables.items():
        if name in NAMES_ONCE:
            for its in found.values():
                its[name] = table
            continue
        table = table.sort_by([(it, "ascending") for it in TABLES[name].order])
        ids = table["node_id"].to_numpy()
        starts = np.flatnonzero(np.append(len(ids) > 0, ids[1:] != ids[:-1]))
        for start, end in zip(starts, [*starts, len(ids)][1:], strict=len(starts) > 0):
            found[int(ids[start])][name] = table.slice(start, end - start)
    return found


def _truth(fleet: Population, blind: list[bool]) -> dict[str, Any]:
    return {
        "seed": fleet.seed,
        "story": fleet.story,
        "nodes": len(fleet),
        "causes": fleet.causes,
        "confounders": fleet.confounders,
        "cannot_tell": fleet.cannot_tell,
        "sick": [name for name, sick in zip(fleet.names, fleet.sick, strict=True) if sick],
        "leaking": [name for name, leaks in zip(fleet.names, fleet.leaks, strict=True) if leaks],
        "onset_hours": {
            name: round(float(at), 3)
            for name, at, leaks in zip(fleet.names, fleet.onset, fleet.leaks, strict=True)
            if leaks and at >= 0
        },
        "blind": [name for name, it in zip(fleet.names, blind, strict=True) if it],
        "cured": [name for name, at in zip(fleet.names, fleet.cured, strict=True) if at < fleet.hours],
        "cured_at": START + fleet.hours // 2 * 3600 if fleet.story == "canary" else None,
        "leaked_per_restart": LEAKED,
    }
