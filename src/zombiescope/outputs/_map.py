"""Draw causes and effects as boxes and arrows: an SVG of its own, or a part of a page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from zombiescope.core import harmless
from zombiescope.outputs._layers import Layout, Point, lay_out

LETTER = 7.3  # px: a letter of 12 px monospace is 7.2 wide in every common font
LINE = 15.0
PAD = 10.0
GAP, DROP = 18.0, 44.0  # between boxes, between layers
MARGIN = 16.0
ROW = 900.0  # px: boxes that nothing joins stand in rows of this width
STYLE = resources.files("zombiescope.outputs").joinpath("map.css").read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Its first line is its name; the others say more. `href` makes it a link."""

    lines: tuple[str, ...]
    title: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    cause: str
    effect: str
    title: str = ""
    weak: bool = False  # a rival that lost: drawn with a broken line


def draw(boxes: Mapping[str, Box], arrows: Sequence[Arrow], *, label: str, alone: bool) -> str:
    """`alone` gives a whole file with its own style; else the page has STYLE already."""
    joined = {end for arrow in arrows for end in (arrow.cause, arrow.effect)}
    sizes = {name: _size(box) for name, box in boxes.items()}
    layout = lay_out(
        {name: size for name, size in sizes.items() if name in joined},
        [(arrow.cause, arrow.effect) for arrow in arrows],
        gap=GAP,
        drop=DROP,
    )
    alones, bottom = _rows([name for name in boxes if name not in joined], sizes, layout)
    width = max([layout.width, *(x + sizes[name][0] / 2 for name, (x, _) in alones.items())])
    width, height = width + 2 * MARGIN, bottom + 2 * MARGIN
    lines = [
        f'<svg class="map" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{_escaped(label)}">',
        *(
            [f"<style>\n{STYLE}</style>", '<rect class="sheet" width="100%" height="100%" rx="8" stroke="none"/>']
            * alone
        ),
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
        *_arrows(arrows, sizes, layout),
        *(_box(box, _kind(name, arrows), sizes[name], (layout.boxes | alones)[name]) for name, box in boxes.items()),
    ]
    if alones and joined:
        lines.append(f'<text class="soft left" x="0" y="{layout.height + DROP - 12:.0f}">no law joins these yet</text>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _size(box: Box) -> Point:
    return max(map(len, box.lines)) * LETTER + 2 * PAD, len(box.lines) * LINE + PAD


def _rows(names: Sequence[str], sizes: Mapping[str, Point], layout: Layout) -> tuple[dict[str, Point], float]:
    """Boxes that nothing joins, row by row below the rest; and where the last row ends."""
    placed: dict[str, Point] = {}
    left, top = 0.0, layout.height + DROP if layout.boxes else 0.0
    for name in names:
        wide, tall = sizes[name]
        if left and left + wide > max(layout.width, ROW):
            left, top = 0.0, top + tall + GAP
        placed[name] = (left + wide / 2, top + tall / 2)
        left += wide + GAP
    return placed, max([layout.height, *(y + sizes[name][1] / 2 for name, (_, y) in placed.items())])


def _kind(name: str, arrows: Sequence[Arrow]) -> str:
    caused, causes = any(it.effect == name for it in arrows), any(it.cause == name for it in arrows)
    return "first" if causes and not caused else "last" if caused and not causes else "between"


def _box(box: Box, kind: str, size: Point, middle: Point) -> str:
    (wide, tall), (x, y) = size, middle
    top = y - tall / 2
    words = "".join(
        f'<text class="{"name" if place == 0 else "soft"}" x="{x:.0f}" y="{top + PAD / 2 + LINE * (place + 0.77):.0f}">'
        f"{_escaped(line)}</text>"
        for place, line in enumerate(box.lines)
    )
    drawn = (
        f'<g class="{kind}">{_title(box.title)}'
        f'<rect x="{x - wide / 2:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{tall:.0f}" rx="5"/>{words}</g>'
    )
    return f'<a href="{_escaped(box.href)}">{drawn}</a>' if box.href else drawn


def _arrows(arrows: Sequence[Arrow], sizes: Mapping[str, Point], layout: Layout) -> Iterator[str]:
    for arrow in arrows:
        bends = layout.bends[arrow.cause, arrow.effect]
        start = _port(arrow, arrows, sizes, layout, leaving=True)
        end = _port(arrow, arrows, sizes, layout, leaving=False)
        weak = " weak" if arrow.weak else ""
        yield (
            f'<path class="arrow{weak}" marker-end="url(#tip)" d="{_curve([start, *bends, end])}">'
            f"{_title(arrow.title)}</path>"
        )


def _port(arrow: Arrow, arrows: Sequence[Arrow], sizes: Mapping[str, Point], layout: Layout, *, leaving: bool) -> Point:
    """Where an arrow leaves or meets a box: side by side with its other arrows, in the order they come from."""
    name = arrow.cause if leaving else arrow.effect

    def towards(it: Arrow) -> float:
        path = [layout.boxes[it.cause], *layout.bends[it.cause, it.effect], layout.boxes[it.effect]]
        return path[1 if leaving else -2][0]

    beside = sorted((it for it in arrows if (it.cause if leaving else it.effect) == name), key=towards)
    (wide, tall), (x, y) = sizes[name], layout.boxes[name]
    step = min(14.0, 0.7 * wide / len(beside))
    return x + (beside.index(arrow) - (len(beside) - 1) / 2) * step, y + (tall / 2 if leaving else -tall / 2)


def _curve(points: Sequence[Point]) -> str:
    """Through all points, upright at each: an arrow goes down, never sideways through a row of boxes."""
    (x, y), *rest = points
    path = [f"M{x:.0f} {y:.0f}"]
    for to_x, to_y in rest:
        half = (y + to_y) / 2
        path.append(f"C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
    return "".join(path)


def _title(words: str) -> str:
    return f"<title>{_escaped(words)}</title>" if words else ""


def _escaped(words: str) -> str:
    return html.escape(harmless(words))
