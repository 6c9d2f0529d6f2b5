"""How answers about a fleet are written: a table on a terminal, TSV in a pipe, JSON if asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from zombiescope.core import harmless

FORMATS = ("table", "tsv", "json")


def write(form: str | None, shape: object, head: Sequence[str], rows: Iterable[Sequence[Any]], *says: str) -> None:
    """`says` are the sentences around the table: first on a terminal, on stderr beside TSV."""
    form = form or ("table" if sys.stdout.isatty() else "tsv")
    if form == "json":
        print(json.dumps(shape, indent=1, allow_nan=False, default=str))
        return
    if form == "tsv":
        for line in says:
            print(harmless(line, most=4_000), file=sys.stderr)
        print("\t".join(head))
        for row in rows:
            print("\t".join("" if it is None else harmless(str(it), most=4_000) for it in row))
        return
    _table(head, rows, says)


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], says: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for line in says:
        console.print(Text(harmless(line, most=4_000)))
    rows = list(rows)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(head):
        number = all(isinstance(row[place], int | float | None) for row in rows)
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(it)) for it in row))
    console.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return harmless(str(value), most=1_000)
