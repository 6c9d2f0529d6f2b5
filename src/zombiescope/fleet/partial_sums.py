"""Questions to a large table that can be asked of parts of it: the same SQL here, by DuckDB, and on other machines.

Either parts are files, and the asker adds up what comes back; or they are ranges of nodes, and each node's answer is
whole. What is added up are whole numbers, so neither the parts nor their order change a digit of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa

from zombiescope.core import UserError, harmless
from zombiescope.fleet import store
from zombiescope.fleet.reading import Fleet, connection, rows_of
from zombiescope.fleet.schemas import empty

ALL_NODES = (0, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Question:
    table: str
    query: str  # {source} stands for the rows that are asked
    given: Mapping[str, pa.Table] = field(default_factory=dict)  # what it joins, by name
    by_node: bool = False  # needs all rows of a node together


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of the store, and rows that are in none of them; of nodes from the first to the last."""

    keys: tuple[str, ...]
    loose: pa.Table | None = None
    nodes: tuple[int, int] = ALL_NODES


class Engine(Protocol):
    """Asks parts somewhere else; a table of each comes back."""

    def asked(self, fleet: Fleet, question: Question) -> Sequence[pa.Table]: ...


def answer(fleet: Fleet, question: Question) -> pa.Table:
    """What all parts answered, one below the other."""
    if fleet.engine is not None:
        return pa.concat_tables(fleet.engine.asked(fleet, question))
    for name, table in question.given.items():
        fleet.connection.register(name, table)
    return fleet.table(question.query.format(source=question.table))


def answer_of_part(url: str, question: Question, part: Part, threads: int = 1) -> pa.Table:
    """One part, by a DuckDB of its own: on whichever machine this is called, which must reach the store."""
    import duckdb

    kept, asking = store.opened(url), connection()
    tables: dict[str, Any] = dict(question.given)
    if part.loose is not None or not part.keys:
        tables["_loose"] = empty(question.table) if part.loose is None else part.loose
    only = ""
    if part.nodes != ALL_NODES:
        only = f"node_id BETWEEN {part.nodes[0]}::UBIGINT AND {part.nodes[1]}::UBIGINT"
    try:
        asking.execute(f"SET threads = {threads}")
        for name, table in tables.items():
            asking.register(name, table)
        paths = [kept.path(key) for key in part.keys]
        rows = rows_of(question.table, paths, "_loose" if "_loose" in tables else "", only)
        return asking.sql(question.query.format(source=f"({rows})")).to_arrow_table()
    except duckdb.Error as error:
        raise UserError(harmless(str(error).splitlines()[0], most=400)) from None
    finally:
        asking.close()


def by_files(fleet: Fleet, table: str, many: int) -> list[Part]:
    """At most so many parts of about as many files each; rows of no file are one more."""
    keys = fleet.keys[table]
    many = max(1, min(many, len(keys)))
    parts = [Part(tuple(keys[place::many])) for place in range(many)] if keys else []
    return [*parts, Part((), fleet.loose[table])] if table in fleet.loose or not parts else parts


def by_nodes(fleet: Fleet, table: str, many: int) -> list[Part]:
    """Ids are hashes, so ranges of the same width have about as many nodes each; files are sorted by them."""
    edges = [2**64 * place // many for place in range(many + 1)]
    keys, loose = tuple(fleet.keys[table]), fleet.loose.get(table)
    return [Part(keys, loose, (low, high - 1)) for low, high in pairwise(edges)]
