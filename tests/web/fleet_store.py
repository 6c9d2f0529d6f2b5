"""A small simulated fleet with two hostile nodes in it, as they could send themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from zombiescope.fleet.hours import SECONDS, Hour, parcel_key
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import TABLES, node_id
from zombiescope.fleet.simulated.fleet import START, simulate
from zombiescope.fleet.store import Folder

NODES, HOURS = 240, 4
LAST = Hour(START + (HOURS - 1) * SECONDS)
MARKUP = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
HOSTILE = (MARKUP, "two\nlines\x1b[31m\u202eeno")
SHOWN = "two\\x0alines\\x1b[31m\\u202eeno"  # the second, as it may be shown


def made(folder: Path) -> Path:
    simulate(str(folder), NODES, HOURS, 7, "incident", every=300)
    for name in HOSTILE:
        send(folder, name)
    return folder


def send(folder: Path, name: str) -> None:
    """A parcel of one node whose every text is its name, and some of whose figures are as large as they can be."""
    times = {"started": LAST.start * 1_000_000, "ended": LAST.end * 1_000_000, "ts": LAST.start * 1_000_000}
    texts = ("name", "zone", "image", "kernel", "instance_type", "boot", "unit", "kind", "subject", "detail", "says")
    row = times | dict.fromkeys(texts, name) | {"labels": [(name, name)], "cores": 2**31 - 1, "active": True}
    found = row | {"role": "root", "broken": 2**31 - 1, "waited_cores": 1.5, "held_bytes": 1e308, "soon_seconds": 1e308}
    both = [found | {"sign": name}, found | {"sign": "crash_looping_unit", "subject": "unit:ecs.service"}]
    rows: dict[str, list[dict[str, Any]]] = {"nodes": [row], "units": [row], "events": [row], "findings": both}
    its = node_id(name)
    tables = {}
    for table, many in rows.items():
        schema = TABLES[table].schema
        shaped = [{key: it for key, it in one.items() if key in schema.names} | {"node_id": its} for one in many]
        tables[table] = pa.Table.from_pylist(shaped, schema=schema)
    assert Folder(str(folder)).create(parcel_key(LAST, its), packed(tables))
