"""A picture of when cores were busy: a column for each second, a row for each 20 ms; the redder, the busier.

The idea, and the way to read it, is FlameScope's: something that happens once a second is a horizontal line, a core
that is busy for a second is a vertical one. Cells are counted in whole nanoseconds and columns begin at whole seconds
of the clock, so what happened at .200 is in the row of .200. Longer captures get longer columns of 50 rows each.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from zombiescope.core import UserError, harmless
from zombiescope.core.samples import Ints, Samples
from zombiescope.profile.about import told, when
from zombiescope.profile.chosen import EVERYTHING, Chosen
from zombiescope.profile.heatmap import SECOND, heatmap

ROWS = 50
MOST_COLUMNS = 1800  # half an hour of seconds
LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)  # of a column, in seconds
LEVELS = 16
# From the smallest to the largest value; visible on white and on black.
_STOPS = ((255, 236, 204), (253, 187, 99), (227, 74, 51), (127, 0, 20))
_EMPTY = (240, 241, 244)
_TALL, _WIDE = 6, 1200  # a row's height and the picture's width, in pixels


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of time: `heat[row, column]`, the first row is the beginning of each column."""

    heat: Ints
    start: int  # of the first column, in nanoseconds
    column: int  # nanoseconds


def grid(capture: Samples, chosen: Chosen = EVERYTHING) -> Grid:
    if capture.clock == "none":
        raise UserError("the source has no times, so it has no heatmap")
    first = capture.start if chosen.start is None else max(chosen.start, capture.start)
    last = max(capture.end if chosen.end is None else min(chosen.end, capture.end), first + 1)
    for length in LENGTHS:
        column = length * SECOND
        start = first // column * column
        columns = -(-(last - start) // column)
        if columns <= MOST_COLUMNS:
            break
    else:
        raise UserError(f"{columns:,} days are too many for one picture: choose a shorter time range")
    heat = heatmap(capture, column // ROWS, chosen, start=start, end=start + columns * column)
    return Grid(heat.reshape(columns, ROWS).T, start, column)


def as_png(capture: Samples, chosen: Chosen = EVERYTHING) -> bytes:
    """Only the cells, later rows above earlier ones."""
    levels = _levels(grid(capture, chosen).heat)[::-1]
    colours = np.array([_EMPTY, *_palette()], np.uint8)
    wide = max(1, _WIDE // levels.shape[1])
    return png(colours[levels.repeat(_TALL, 0).repeat(min(wide, 2 * _TALL), 1)])


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Rows of red, green, blue as a PNG file. The format: RFC 2083."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


def as_svg(capture: Samples, chosen: Chosen = EVERYTHING) -> bytes:
    """With times below it, and the value of each column as a hover text. It has no script."""
    found = grid(capture, chosen)
    levels = _levels(found.heat)
    columns = levels.shape[1]
    wide = max(1, min(2 * _TALL, _WIDE // columns))
    width, height = columns * wide, ROWS * _TALL
    cells = []
    for level, colour in enumerate(_palette(), 1):
        row, column = np.nonzero(levels == level)
        if len(row):
            path = "".join(f"M{x} {y}h{wide}v{_TALL}h-{wide}z" for x, y in _corners(row, column, wide))
            cells.append(f'<path fill="#{bytes(colour).hex()}" d="{path}"/>')
    titles = [
        f'<rect x="{place * wide}" width="{wide}" height="{height}" fill-opacity="0"><title>'
        f"{when(found.start + place * found.column, capture)}: {told(heat, capture)}</title></rect>"
        for place, heat in enumerate(found.heat.sum(0).tolist())
        if heat
    ]
    apart = max(1, round(150 / wide))  # columns between two labels
    labels = [
        f'<text x="{place * wide}" y="{height + 14}">{when(found.start + place * found.column, capture)}</text>'
        for place in range(0, max(columns - apart // 2, 1), apart)
    ]
    name = escape(harmless(capture.label))
    says = f"{name}: columns of {found.column // SECOND} s, rows of {found.column // ROWS // 10**6} ms"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, 480) + 20}" height="{height + 60}" '
        f'viewBox="-10 -30 {max(width, 480) + 20} {height + 60}">{STYLE}'
        f'<rect class="page" x="-10" y="-30" width="100%" height="100%"/><text y="-10">{says}</text>'
        f'<rect class="empty" width="{width}" height="{height}"/>{"".join(cells + titles + labels)}</svg>\n'
    ).encode()


STYLE = """<style>
text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f }
.page { fill: #ffffff } .empty { fill: #f0f1f4 }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de } .page { fill: #14171c } .empty { fill: #20242b } }
</style>"""


def _levels(heat: Ints) -> npt.NDArray[np.int64]:
    """0 for nothing, then by equal steps up to LEVELS for the most."""
    found: npt.NDArray[np.int64] = -(-heat * LEVELS // max(int(heat.max(initial=0)), 1))
    return found


def _palette() -> list[tuple[int, int, int]]:
    steps = np.linspace(0, len(_STOPS) - 1, LEVELS)
    stops = np.array(_STOPS, float).T
    red, green, blue = (np.interp(steps, range(len(_STOPS)), stop).round().astype(int).tolist() for stop in stops)
    return list(zip(red, green, blue, strict=True))


def _corners(row: npt.NDArray[np.int64], column: npt.NDArray[np.int64], wide: int) -> list[tuple[int, int]]:
    return list(zip((column * wide).tolist(), ((ROWS - 1 - row) * _TALL).tolist(), strict=True))
