"""A flame graph as one picture for tickets: root at the bottom, a frame's share as a hover text, no script."""

from __future__ import annotations

from html import escape
from typing import IO

from zombiescope.profile.exports._layout import TALL, WIDTH, Box, drawn, fitting
from zombiescope.profile.heatmap_images import STYLE
from zombiescope.profile.picture import Picture

SUFFIX, BINARY, COMPARES = ".svg", False, True
_EDGE, _HEAD = 10, 26


def write(picture: Picture, out: IO[bytes]) -> None:
    drawing = drawn(picture)
    width, height = WIDTH + 2 * _EDGE, drawing.levels * TALL + 2 * _HEAD
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{STYLE}<style>g text {{ fill: #10141a }} g:hover rect {{ stroke: #10141a }}'
        f'</style><rect class="page" width="{width}" height="{height}"/>'
        f'<text x="{_EDGE}" y="17">{escape(fitting(drawing.head, WIDTH))}</text>'
        f'<text x="{_EDGE}" y="{height - 9}">{escape(drawing.foot)}</text>\n'.encode()
    )
    for box in drawing.boxes:
        out.write(_box(box, _HEAD + (drawing.levels - 1 - box.level) * TALL).encode())
    out.write(b"</svg>\n")


def _box(box: Box, y: int) -> str:
    x, text = _EDGE + box.x, fitting(box.name, box.width)
    name = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(text)}</text>' if text else ""
    return (
        f'<g><title>{escape(box.title)}</title><rect x="{x:.2f}" y="{y}" width="{max(box.width - 0.4, 0.2):.2f}" '
        f'height="{TALL - 1}" rx="1" fill="#{bytes(box.colour).hex()}"/>{name}</g>\n'
    )
