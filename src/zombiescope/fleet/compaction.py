"""Parcels of many nodes into few large files: 12,000 small files cost 49 times the CPU of 48 large ones to read.

An hour's parcels are read in batches, each in a process of its own; one that takes its process down is found by trying
the batch's parcels one by one, and left out. Files are written first, then the manifest that names them. A compactor
that is killed leaves files that no manifest names: they are never read.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zombiescope.core import UserError
from zombiescope.fleet import manifest
from zombiescope.fleet.apart import done_apart
from zombiescope.fleet.hours import INCOMING, Hour, node_of, of_key, parcel_key, table_key
from zombiescope.fleet.manifest import Manifest
from zombiescope.fleet.parcel import Refused, checked, opened, parquet, plain, reachable, unpacked
from zombiescope.fleet.reach import also
from zombiescope.fleet.schemas import NAMES_ONCE, TABLES
from zombiescope.fleet.shared_names import once
from zombiescope.fleet.store import Store

BATCH = 500  # parcels in one process: some 100 MB of them
NODES_A_BUCKET = 2_000  # metrics of so many for an hour are some 25 MB


@dataclass(slots=True)
class Compacted:
    hours: int = 0
    parcels: int = 0
    refused: int = 0
    lost: int = 0  # hours in which another compactor was first


def waiting(store: Store, known: dict[Hour, Manifest] | None = None) -> dict[Hour, list[int]]:
    """Nodes whose parcel of an hour is in no manifest yet."""
    known = manifest.all_of(store) if known is None else known
    found: dict[Hour, list[int]] = defaultdict(list)
    for key in store.keys(INCOMING):
        parts = of_key(key)
        node = node_of(parts[1]) if parts else None
        if parts and node is not None and (parts[0] not in known or node not in known[parts[0]].nodes):
            found[parts[0]].append(node)
    return {hour: sorted(nodes) for hour, nodes in sorted(found.items())}


def compact(store: Store, say: Callable[[str], None] = lambda _: None) -> Compacted:
    """Every hour that has parcels waiting."""
    done = Compacted()
    for hour, nodes in waiting(store).items():
        tables, refused = read_parcels(store, hour, nodes)
        new = written(store, hour, tables, nodes, refused)
        done.parcels += len(nodes) - sum(node in refused and not _used(tables, node) for node in nodes)
        if manifest.commit(store, new):
            done.hours += 1
            done.refused += len(refused)
        else:
            done.lost += 1
            for keys in new.files.values():
                for key in keys:
                    store.remove(key)
        say(f"{hour.part}: {len(nodes)} parcels" + (f", {len(refused)} with something left out" if refused else ""))
    return done


def _used(tables: dict[str, pa.Table], node: int) -> bool:
    import pyarrow.compute as pc

    return "nodes" in tables and bool(
        pc.any(pc.equal(tables["nodes"]["node_id"], pa.scalar(node, pa.uint64()))).as_py()
    )


def written(
    store: Store, hour: Hour, tables: dict[str, pa.Table], nodes: Sequence[int], refused: dict[int, str]
) -> Manifest:
    """The files of one hour, not yet in any manifest. A name is new each time: nothing is ever overwritten."""
    name = os.urandom(10).hex()
    buckets = max(1, -(-len(nodes) // NODES_A_BUCKET))
    files: dict[str, list[str]] = defaultdict(list)
    for table, rows in tables.items():
        for bucket, part in _bucketed(table, rows, buckets):
            if part.num_rows:
                shape = TABLES[table]
                part = part.sort_by([(it, "ascending") for it in shape.order])
                key = table_key(table, hour, bucket, name)
                if not store.create(key, parquet(shape, part)):
                    raise UserError(f"{store.url}/{key}: a file of a random name is there already")
                files[table].append(key)
    return Manifest(hour, 0, {table: tuple(keys) for table, keys in files.items()}, frozenset(nodes), refused)


def _bucketed(table: str, rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    if buckets == 1 or table in NAMES_ONCE:
        yield 0, rows
        return
    of = rows["node_id"].to_numpy() % np.uint64(buckets)
    for bucket in range(buckets):
        yield bucket, rows.filter(pa.array(of == bucket))


def read_parcels(store: Store, hour: Hour, nodes: Sequence[int]) -> tuple[dict[str, pa.Table], dict[int, str]]:
    """The tables of these nodes, checked; and whose parcel was left out, all or in part, with the reason."""
    gathered: dict[str, list[pa.Table]] = defaultdict(list)
    refused: dict[int, str] = {}
    for start in range(0, len(nodes), BATCH):
        batch = nodes[start : start + BATCH]
        contents = {}
        for node in batch:
            try:
                contents[node] = store.read(parcel_key(hour, node))
            except UserError as error:
                refused[node] = str(error)[:200]
        for tables, why in _apart(contents, hour):
            refused |= why
            for name, table in tables.items():
                gathered[name].append(table)
    return {name: once(name, pa.concat_tables(tables)) for name, tables in gathered.items()}, refused


def _apart(contents: dict[int, bytes], hour: Hour) -> Iterator[tuple[dict[str, pa.Table], dict[int, str]]]:
    """A batch in one process; if that dies, each parcel in its own."""
    found = _tried(contents, hour)
    if found is not None:
        yield found
    elif len(contents) == 1:
        yield {}, dict.fromkeys(contents, "reading it crashes, or never ends")
    else:
        middle = len(contents) // 2
        nodes = list(contents)
        for part in (nodes[:middle], nodes[middle:]):
            yield from _apart({node: contents[node] for node in part}, hour)


def _tried(contents: dict[int, bytes], hour: Hour) -> tuple[dict[str, pa.Table], dict[int, str]] | None:
    with tempfile.TemporaryDirectory(prefix="zombiescope-") as folder:
        if not done_apart(lambda: _unpack(contents, hour, folder)):
            return None
        with open(os.path.join(folder, "refused.json")) as file:
            refused = {int(node): str(why) for node, why in json.load(file).items()}
        tables = {}
        for name in TABLES:
            path = os.path.join(folder, f"{name}.arrow")
            if os.path.exists(path):
                with pa.OSFile(path) as stream:
                    tables[name] = pa.ipc.open_file(stream).read_all()
        return tables, refused


def _unpack(contents: dict[int, bytes], hour: Hour, folder: str) -> None:
    gathered, refused = unpacked_together(contents, hour)
    for name, many in gathered.items():
        table = once(name, pa.concat_tables(many)).combine_chunks()
        path = os.path.join(folder, f"{name}.arrow")
        with pa.OSFile(path, "wb") as stream, pa.ipc.new_file(stream, table.schema) as out:
            out.write_table(table)
    with open(os.path.join(folder, "refused.json"), "w") as file:
        json.dump(refused, file)


def unpacked_together(contents: dict[int, bytes], hour: Hour) -> tuple[dict[str, list[pa.Table]], dict[int, str]]:
    """Tables that have our columns are checked all at once; parcels with any other are opened one by one."""
    refused: dict[int, str] = {}
    usual: dict[int, dict[str, pa.Table]] = {}
    gathered: dict[str, list[pa.Table]] = defaultdict(list)
    odd: list[int] = []
    for node, content in contents.items():
        try:
            tables = opened(content)
        except Refused as error:
            refused[node] = str(error)
            continue
        if "nodes" in tables and all(plain(name, table) for name, table in tables.items()):
            usual[node] = tables
        else:
            odd.append(node)
    try:
        together = _checked_together(usual, hour)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, TypeError, KeyError):
        together, odd = None, [*odd, *usual]
    sound, beyond = reachable({name: table for name, (table, _) in (together or {}).items()})
    for name, table in sound.items():
        gathered[name].append(table)
        if together and together[name][1]:
            beyond = also(beyond, _lost(name, usual, table))
    refused |= {node: f"in part: {why}"[:400] for node, why in beyond.items()}
    for node in odd:
        try:
            tables, left_out = unpacked(contents[node], node, hour)
        except Refused as error:
            refused[node] = str(error)
            continue
        if left_out:
            refused[node] = "in part: " + "; ".join(dict.fromkeys(left_out))[:400]
        for name, table in tables.items():
            gathered[name].append(table)
    return gathered, refused


def _lost(name: str, usual: dict[int, dict[str, pa.Table]], kept: pa.Table) -> dict[int, str]:
    """Nodes that sent rows of other hours."""
    nodes, counts = np.unique(kept["node_id"].to_numpy(), return_counts=True)
    left = dict(zip(nodes.tolist(), counts.tolist(), strict=True))
    gone = {node: its[name].num_rows - left.get(node, 0) for node, its in usual.items() if name in its}
    return {node: f"{name}: {less} rows of other hours" for node, less in gone.items() if less}


def _checked_together(usual: dict[int, dict[str, pa.Table]], hour: Hour) -> dict[str, tuple[pa.Table, int]]:
    found = {}
    for name in TABLES:
        many = [(node, tables[name]) for node, tables in usual.items() if name in tables]
        if many:
            ids = np.repeat(np.array([node for node, _ in many], np.uint64), [table.num_rows for _, table in many])
            table = pa.concat_tables([table for _, table in many]).combine_chunks()  # a chunk a parcel is slow
            found[name] = checked(name, table, ids, hour)
    return found
