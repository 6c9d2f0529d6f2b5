"""Parcels of a few simulated nodes, and stores that have them waiting."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from zombiescope.fleet import store
from zombiescope.fleet.hours import INCOMING, Hour, node_of, of_key
from zombiescope.fleet.parcel import opened
from zombiescope.fleet.simulated.fleet import START, simulate
from zombiescope.fleet.store import Folder

HOUR = Hour(START)


def waiting_store(folder: Path, nodes: int = 12, hours: int = 1, seed: int = 5) -> Folder:
    """Every node's hours as parcels, not compacted."""
    simulate(str(folder), nodes, hours, seed, "incident", every=60, parcels=True)
    found = store.opened(str(folder))
    assert isinstance(found, Folder)
    return found


def keys_of(kept: Folder) -> list[str]:
    return sorted(kept.keys(INCOMING))


def node_in(key: str) -> int:
    parts = of_key(key)
    assert parts is not None
    node = node_of(parts[1])
    assert node is not None
    return node


def tables_in(kept: Folder, key: str) -> dict[str, pa.Table]:
    return opened(kept.read(key))
