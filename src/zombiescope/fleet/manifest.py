"""Which files make up an hour, and which nodes' parcels are in them. A reader sees one manifest, so never half an hour.

Manifests of an hour are numbered; the next number is created conditionally. Of two compactors that finish together one
wins; the other sees which parcels are in already, and removes its own files.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.fleet.hours import MANIFESTS, Hour, is_table_key, manifest_key, of_key
from zombiescope.fleet.schemas import TABLES
from zombiescope.fleet.store import Store

FORMAT = 1
TRIES = 20  # of a commit: each time another compactor was first


@dataclass(frozen=True, slots=True)
class Manifest:
    hour: Hour
    number: int = 0
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)  # keys, by table
    nodes: frozenset[int] = frozenset()  # whose parcels were read, used or refused
    refused: dict[int, str] = field(default_factory=dict)  # nodes whose parcel, or a part of it, was left out, and why

    def to_json(self) -> bytes:
        shape = {
            "format": FORMAT,
            "files": {table: list(keys) for table, keys in sorted(self.files.items())},
            "nodes": [f"{it:016x}" for it in sorted(self.nodes)],
            "refused": {f"{node:016x}": why for node, why in sorted(self.refused.items())},
        }
        return json.dumps(shape, separators=(",", ":")).encode()


def all_of(store: Store) -> dict[Hour, Manifest]:
    """The newest manifest of each hour."""
    newest: dict[Hour, int] = defaultdict(int)
    for key in store.keys(MANIFESTS):
        found = of_key(key)
        if found and found[1].endswith(".json") and found[1][:-5].isdecimal():
            newest[found[0]] = max(newest[found[0]], int(found[1][:-5][:9]))
    return {hour: read(store, hour, number) for hour, number in sorted(newest.items())}


def newest_of(store: Store, hour: Hour) -> Manifest:
    """Of one hour; an empty one if it has none."""
    numbers = [
        int(found[1][:-5][:9])
        for key in store.keys(f"{MANIFESTS}/{hour.part}")
        if (found := of_key(key)) and found[1].endswith(".json") and found[1][:-5].isdecimal()
    ]
    return read(store, hour, max(numbers)) if numbers else Manifest(hour)


def read(store: Store, hour: Hour, number: int) -> Manifest:
    key = manifest_key(hour, number)
    try:
        said: dict[str, Any] = json.loads(store.read(key))
        if said["format"] != FORMAT:
            raise UserError(
                f"{store.url}/{key}: format {harmless(str(said['format']), most=40)} is newer than this version"
            )
        files = {table: tuple(map(str, keys)) for table, keys in said["files"].items() if table in TABLES}
        if odd := [it for table, keys in files.items() for it in keys if not is_table_key(it, table, hour)]:
            raise ValueError(f"{odd[0]} is no file of this hour")
        nodes = frozenset(int(it, 16) for it in said["nodes"])
        return Manifest(hour, number, files, nodes, {int(it, 16): str(why) for it, why in said["refused"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{store.url}/{key}: not a manifest: {harmless(str(error), most=100)}") from error


def commit(store: Store, new: Manifest) -> bool:
    """Add files and nodes to an hour; False if another compactor has added some of these nodes in the meantime."""
    for _ in range(TRIES):
        old = newest_of(store, new.hour)
        if old.nodes & new.nodes:
            return False
        files = {table: (*old.files.get(table, ()), *new.files.get(table, ())) for table in {*old.files, *new.files}}
        whole = Manifest(new.hour, old.number + 1, files, old.nodes | new.nodes, old.refused | new.refused)
        if store.create(manifest_key(new.hour, whole.number), whole.to_json()):
            return True
    raise UserError(f"{store.url}: too many compactors at once for {new.hour.part}: try again")
