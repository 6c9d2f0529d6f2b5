"""Lines of a terminal: wrapped to its width, harmless, and never longer than a reader wants."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from zombiescope.core import harmless


def wrapped(
    words: str, width: int, *, first: str = "", rest: str = "", end: str = "", most: int = 0, style: str = ""
) -> Iterator[Text]:
    """`words` after `first`, further lines after `rest`; after `most` lines, if given, all is cut but the `end`."""
    width, indent = max(width, 40), rest or " " * len(first)
    fits = len(indent) + len(f"…{end}") <= width  # on a narrow terminal the end is cut as well
    shown = textwrap.wrap(
        harmless(f"{words}{end}", most=4000),
        width=width,
        initial_indent=first,
        subsequent_indent=indent,
        max_lines=most or None,
        placeholder=f" …{end}" if fits else " …",
        break_on_hyphens=False,
    )
    for line in shown or [first.rstrip()]:
        yield Text(line, style)  # never markup: what the machine said is shown, not obeyed
