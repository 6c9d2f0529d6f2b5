"""A store opened for questions: DuckDB over the files of a range of hours, with one view for each table.

Views are called as the tables of `schemas`; `nodes` has one row a node, its newest, and `node_hours` one for each hour.
`costs` has the findings with what each cost.
Parcels that no compactor has taken yet are read too. Which hour is the newest is decided by most nodes, not by the one
whose clock is ahead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zombiescope.core import Span, UserError, harmless
from zombiescope.fleet import manifest
from zombiescope.fleet.compaction import read_parcels, waiting
from zombiescope.fleet.hours import SECONDS, Hour, hour_of
from zombiescope.fleet.reach import MOST_CORES
from zombiescope.fleet.schemas import TABLES, empty
from zombiescope.fleet.store import Folder, Store

if TYPE_CHECKING:
    from zombiescope.fleet.partial_sums import Engine

HOURS = 24.0  # that are read unless asked otherwise
MOST_WAITING = 20_000  # parcels that are read without a compactor: some minutes
EXTRA = "fleet"  # of the package, that brings duckdb
# Findings with what they cost, in core-hours: what work waited and what was burnt. Many threads may wait for one core,
# and many causes be claimed at once: those of an hour cost a node no more than all of its cores, so that hours can be
# priced and one node never stands for a fleet.
COSTS = f"""
    WITH lost AS (
        SELECT f.*, coalesce(cores, {MOST_CORES}) AS cores,
            CASE WHEN waited_cores IS NOT NULL OR burnt_cores IS NOT NULL THEN
                (greatest(coalesce(waited_cores, 0), 0) + greatest(coalesce(burnt_cores, 0), 0))
                * least(greatest(epoch(ended) - epoch(started), 0), {SECONDS}) / 3600 END AS own
        FROM findings f LEFT JOIN (SELECT node_id, cores FROM nodes) USING (node_id))
    SELECT * EXCLUDE (cores, own), own * least(1, cores / nullif(
        sum(own) OVER (PARTITION BY node_id, epoch(ended - INTERVAL 1 microsecond) // 3600, role), 0)) AS core_hours
    FROM lost"""


@dataclass(slots=True)
class Fleet:
    """Nodes over a range of hours, ready for SQL."""

    store: Store
    hours: list[Hour]
    refused: dict[int, str]
    ahead: dict[int, str] = field(default_factory=dict)  # nodes whose clock is ahead of the others
    keys: dict[str, list[str]] = field(default_factory=dict)  # of the store's files, by table
    loose: dict[str, pa.Table] = field(default_factory=dict)  # rows of parcels that no compactor has taken yet
    engine: Engine | None = None  # who makes partial sums, if not DuckDB here
    _connection: Any = None

    @property
    def span(self) -> Span:
        return Span(self.hours[0].start, self.hours[-1].end) if self.hours else Span(0.0, 0.0)

    @property
    def connection(self) -> Any:
        return self._connection

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        import duckdb

        try:
            found: list[tuple[Any, ...]] = self._connection.execute(query, list(values)).fetchall()
        except duckdb.Error as error:
            raise UserError(f"the store could not be read: {harmless(str(error).splitlines()[0])}") from error
        return found

    def table(self, query: str) -> pa.Table:
        import duckdb

        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise UserError(f"the query could not be answered: {harmless(str(error).splitlines()[0])}") from error


def opened(
    store: Store,
    hours: float = HOURS,
    start: float | None = None,
    end: float | None = None,
    *,
    engine: Engine | None = None,
    elsewhere: Sequence[str] = (),
) -> Fleet:
    """The last hours that most nodes have sent, or those between two times.

    Tables that are read `elsewhere`, by the engine's own nodes, are not fetched, and have no view here.
    """
    known = manifest.all_of(store)
    loose = waiting(store, known)
    every = sorted({*known, *loose})
    if not every:
        if isinstance(store, Folder) and not os.path.isdir(store.folder):
            raise UserError(f"{store.url}: no such folder")
        raise UserError(
            f"{store.url}: no node has sent anything yet: see `zombiescope fleet gather`, or make a fleet to try with "
            "`zombiescope lab fleet DIR`"
        )
    counts = {it: len(known[it].nodes if it in known else ()) + len(loose.get(it, ())) for it in every}
    newest = _newest(counts)
    last = hour_of(end - 1) if end is not None else newest
    first = hour_of(start) if start is not None else Hour(last.start - (max(1, round(hours)) - 1) * SECONDS)
    chosen = [it for it in every if first <= it <= last]
    if not chosen:
        raise UserError(f"{store.url}: nothing in that range; there is {every[0].part} to {newest.part}")
    refused: dict[int, str] = {}
    for hour in chosen:
        refused |= known[hour].refused if hour in known else {}
    ahead = {
        node: f"its newest hour is {hour.part}"
        for hour in every
        if hour > newest
        for node in (*(known[hour].nodes if hour in known else ()), *loose.get(hour, ()))
    }
    fleet = Fleet(store, chosen, refused, ahead, engine=engine)
    fleet.keys = {
        table: [key for it in chosen if it in known for key in known[it].files.get(table, ())] for table in TABLES
    }
    fleet.loose = {name: pa.concat_tables(tables) for name, tables in _loose(fleet, loose).items()}
    _connect(fleet, [it for it in TABLES if it not in elsewhere])
    return fleet


def _newest(counts: dict[Hour, int]) -> Hour:
    """The last hour that at least half as many nodes have sent as is usual."""
    usual = median(counts.values())
    return max(hour for hour, count in counts.items() if count >= usual / 2)


def _loose(fleet: Fleet, loose: dict[Hour, list[int]]) -> dict[str, list[pa.Table]]:
    if sum(len(loose.get(it, ())) for it in fleet.hours) > MOST_WAITING:
        raise UserError(
            f"{fleet.store.url}: more than {MOST_WAITING:,} parcels wait: run `zombiescope fleet compact` first"
        )
    found: dict[str, list[pa.Table]] = {}
    for hour in fleet.hours:
        tables, refused = read_parcels(fleet.store, hour, loose.get(hour, []))
        fleet.refused |= refused
        for name, table in tables.items():
            found.setdefault(name, []).append(table)
    return found


def connection() -> Any:
    """DuckDB in memory: no extension from the network, nothing written but to a private folder when memory is short."""
    try:
        import duckdb
    except ImportError:
        raise UserError(f"questions to a fleet need DuckDB: pip install 'zombiescope[{EXTRA}]'") from None
    spill = os.path.join(tempfile.gettempdir(), f"zombiescope-fleet-{os.geteuid()}-{os.getpid()}")
    settings: dict[str, Any] = {"autoinstall_known_extensions": "false", "temp_directory": spill, "TimeZone": "UTC"}
    return duckdb.connect(":memory:", config=settings)


def source(paths: Sequence[str]) -> str:
    """Files as SQL reads them."""
    listed = ", ".join("'" + it.replace("'", "''") + "'" for it in paths)
    return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"


def rows_of(table: str, paths: Sequence[str], loose: str = "", only: str = "") -> str:
    """All rows of a table, as SQL: of files, and of one that is registered as `loose`. `only`: a condition on both."""
    columns = ", ".join(f'"{it}"' for it in TABLES[table].schema.names)
    sources = [*([source(paths)] if paths else []), *([loose] if loose else [])]
    where = f" WHERE {only}" if only else ""
    return " UNION ALL ".join(f"SELECT {columns} FROM {it}{where}" for it in sources)


def _connect(fleet: Fleet, tables: Sequence[str]) -> None:
    fleet._connection = connection()
    for name in tables:
        paths = [fleet.store.path(key) for key in fleet.keys[name]]
        loose = ""
        if name in fleet.loose or not paths:
            loose = f"_{name}_loose"
            fleet._connection.register(loose, fleet.loose.get(name, empty(name)))
        view = "node_hours" if name == "nodes" else name
        fleet.rows(f"CREATE VIEW {view} AS {rows_of(name, paths, loose)}")
    # Held in memory: every question asks for it.
    fleet.rows(
        "CREATE TABLE nodes AS SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER "
        "(PARTITION BY node_id ORDER BY ts DESC) AS place FROM node_hours) WHERE place = 1"
    )
    fleet.rows(f"CREATE VIEW costs AS {COSTS}")
