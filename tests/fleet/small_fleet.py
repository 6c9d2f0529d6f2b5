"""A fleet of nodes that send no more than what they are and what was found on them, row by row as a test wants it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from zombiescope.fleet.hours import SECONDS, Hour, parcel_key
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import TABLES, node_id
from zombiescope.fleet.simulated.fleet import START
from zombiescope.fleet.store import Folder

CORES = 8


def hour(number: int) -> Hour:
    return Hour(START + number * SECONDS)


def found(number: int, **figures: Any) -> dict[str, Any]:
    """A root cause that was there for all of an hour: a core that waited, unless figures say otherwise."""
    at = {"started": hour(number).start * 1_000_000, "ended": hour(number).end * 1_000_000}
    usual = {"sign": "crash_looping_unit", "subject": "unit:a.service", "role": "root", "says": "it crashes"}
    return at | usual | {"waited_cores": 1.0, "burnt_cores": 0.0, "held_bytes": 0.0, "broken": 1} | figures


def send(folder: Path, name: str, number: int, findings: Iterable[dict[str, Any]] = (), **more: Any) -> int:
    """One hour of one node; `more` are tables with all their rows, or other traits. Its id."""
    its = node_id(name)
    node = {"ts": hour(number).start * 1_000_000, "name": name, "cores": CORES, "watched_seconds": 3600.0, "blind": []}
    tables = {key: it for key, it in more.items() if key in TABLES}
    node |= {key: it for key, it in more.items() if key not in TABLES}
    rows = {"nodes": [node], "findings": list(findings), **tables}
    made = {
        table: pa.Table.from_pylist([{"node_id": its, **row} for row in many], schema=TABLES[table].schema)
        for table, many in rows.items()
        if many
    }
    assert Folder(str(folder), durable=False).create(parcel_key(hour(number), its), packed(made))
    return its
