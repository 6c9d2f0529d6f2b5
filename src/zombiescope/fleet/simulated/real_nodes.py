"""Real recordings among simulated nodes: of faults that `lab run NAME --record DIR` made, moved to the fleet's hours.

They are read as `fleet gather` reads them, so what a node finds and sends is real; only the clock is another. Each is a
node of its own, named by its folder: recordings of one machine would all have the same name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa

from zombiescope.core import UserError, harmless
from zombiescope.fleet.compaction import compact
from zombiescope.fleet.hour_parcel import hour_tables, hours
from zombiescope.fleet.hours import SECONDS, Hour, parcel_key
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import node_id
from zombiescope.fleet.store import Store
from zombiescope.recorder.replay import Recording, opened


def named(folders: Sequence[str]) -> dict[str, Recording]:
    """Recordings, by the name that each will have."""
    found: dict[str, Recording] = {}
    for folder in folders:
        name = f"recorded-{os.path.basename(os.path.abspath(folder))}"
        if name in found:
            raise UserError(f"{harmless(folder)}: two recordings of that name: give folders of other names")
        found[name] = opened(folder)
    return found


def mixed_in(store: Store, recordings: Mapping[str, Recording], first: Hour, many: int) -> None:
    """The last hour of a recording is the last of the fleet; hours older than the fleet are left out."""
    for name, recording in recordings.items():
        its = list(hours(recording, float("inf")))[-many:]
        for place, hour in enumerate(its):
            to = Hour(first.start + (many - len(its) + place) * SECONDS)
            if tables := hour_tables(recording, hour, name, {"recorded": "yes"}):
                later = {table: moved(rows, to.start - hour.start) for table, rows in tables.items()}
                store.create(parcel_key(to, node_id(name)), packed(later))
    compact(store)


def moved(table: pa.Table, seconds: int) -> pa.Table:
    """The same rows, so many seconds later."""
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            later = pa.array(table[column.name].cast(pa.int64()).to_numpy() + seconds * 1_000_000)
            table = table.set_column(place, column, later.cast(column.type))
    return table
