"""Lines of a terminal: wrapped to its width, harmless, and never longer than a reader wants."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

from zombiescope.core import harmless


class Line(NamedTuple):
    """One line, never markup: what the machine said is shown, not obeyed."""

    text: str = ""
    style: str = ""


def written(lines: Iterable[Line], out: TextIO) -> None:
    """With colours on a terminal. In a pipe or a file there are none, and rich, which takes 50 ms, is not loaded."""
    if not out.isatty():
        out.writelines(f"{line.text}\n" for line in lines)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(*line))


def width_of(out: TextIO, otherwise: int) -> int:
    """Columns of a terminal."""
    if not out.isatty():
        return otherwise
    from rich.console import Console

    return Console(file=out).width


def wrapped(
    words: str, width: int, *, first: str = "", rest: str = "", end: str = "", most: int = 0, style: str = ""
) -> Iterator[Line]:
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
        yield Line(line, style)
