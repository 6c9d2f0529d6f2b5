"""A list as a table for a person at a terminal, and as tab-separated lines for a program in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def write_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, heading_in_pipe: bool = False) -> None:
    """To stdout. In a pipe one line a row, with the headings first if that is what programs know."""
    shown = [[str(it) for it in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(headings)] * heading_in_pipe + shown:
            print(*row, sep="\t")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        # The first column is what one types next: it is never cut.
        table.add_column(heading, no_wrap=place == 0, overflow="fold")
    for row in shown:
        table.add_row(*map(Text, row))  # Text: names are data, no markup
    Console().print(table)
