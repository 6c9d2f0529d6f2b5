"""Where each frame of a flame graph is drawn, its colour and its hover text, for SVG and PNG."""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.profile.about import told
from zombiescope.profile.picture import Compared, Picture, shown

WIDTH, TALL = 1200, 17  # the whole picture's width and a frame's height, in pixels
CHAR = 6.7  # pixels that a character takes at 11 pixels' height
THINNEST = 0.5  # pixels: thinner frames are not drawn
MOST_LEVELS = 400  # a kernel's stack has 127 frames at most, unless kernel.perf_event_max_stack was raised
# Kernel warm, user cold, processes grey: the page's colours. Dark text can be read on each of them.
_COLOURS = {"root": (154, 160, 168), "process": (176, 181, 189), "kernel": (217, 130, 43), "user": (74, 144, 194)}
_SAME, _MORE, _LESS = (222, 224, 228), (226, 74, 64), (66, 133, 214)


class Box(NamedTuple):
    x: float
    width: float
    level: int
    colour: tuple[int, int, int]
    name: str
    title: str


class Drawing(NamedTuple):
    boxes: list[Box]
    levels: int
    head: str  # what the picture shows
    foot: str  # how to read it


def drawn(picture: Picture) -> Drawing:
    """All visible frames. In a difference each is as wide as the mean of both, so that vanished ones show too."""
    boxes, levels, hidden = [], 1, False
    largest = max((abs(_rise(it, picture)) for it in picture), default=0.0)
    for compared, x, width in _placed(picture):
        node = compared.node
        if width < THINNEST:
            continue
        if node.depth >= MOST_LEVELS:
            hidden = True
            continue
        levels = max(levels, node.depth + 1)
        plain = picture.baseline is None
        colour = _colour(node.kind, node.name) if plain else _warmth(_rise(compared, picture), largest)
        boxes.append(Box(x, width, node.depth, colour, shown(node.name), _title(compared, picture)))
    foot = "kernel orange, user blue"
    if picture.baseline is not None:
        foot = "red: more than in the baseline, blue: less; width: the mean of both"
    return Drawing(boxes, levels, _head(picture), foot + (f"; the lowest {MOST_LEVELS} levels" if hidden else ""))


def fitting(name: str, width: float) -> str:
    """As much of a name as fits in a frame; nothing if only a letter or two would fit."""
    room = int((width - 6) / CHAR)
    wide = [2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in name[: room + 1]]
    if sum(wide) <= room:
        return name
    kept = 0
    while kept < len(wide) and sum(wide[: kept + 1]) < room:
        kept += 1
    return f"{name[:kept]}…" if room >= 3 and kept else ""


def _placed(picture: Picture) -> Iterator[tuple[Compared, float, float]]:
    """Each frame, where it begins and how wide it is."""
    begins = [0.0]  # on each level, where the next frame begins
    sides = bool(picture.now.all) + bool(picture.before.all)
    for compared in picture:
        depth, width = compared.node.depth, WIDTH * sum(_shares(compared, picture)) / sides
        x = begins[depth]
        begins[depth:] = [x + width, x]
        yield compared, x, width


def _shares(compared: Compared, picture: Picture) -> tuple[float, float]:
    """Shares of the whole, now and in the baseline."""
    now, before = max(picture.now.all, 1), max(picture.before.all, 1)
    return compared.node.total / now, compared.before_total / before


def _rise(compared: Compared, picture: Picture) -> float:
    now, before = _shares(compared, picture)
    return now - before


def _colour(kind: str, name: str) -> tuple[int, int, int]:
    """A shade of its kind's colour, always the same for the same name, so that neighbours differ."""
    shade = zlib.crc32(name.encode("utf-8", "surrogatepass")) % 7 * 6
    red, green, blue = (min(part + shade, 255) for part in _COLOURS[kind])
    return red, green, blue


def _warmth(rise: float, largest: float) -> tuple[int, int, int]:
    """Red for more, blue for less; by the square root of the share, or all but the largest would be pale."""
    share = (abs(rise) / largest) ** 0.5 if largest else 0.0
    end = _MORE if rise > 0 else _LESS
    red, green, blue = (round(same + (part - same) * share) for same, part in zip(_SAME, end, strict=True))
    return red, green, blue


def _title(compared: Compared, picture: Picture) -> str:
    node = compared.node
    now, before = _shares(compared, picture)
    module = f" [{shown(node.module)}]" if node.module else ""
    kind = f" ({node.kind})" if node.kind in ("kernel", "user") else ""
    says = f"{shown(node.name)}{module}{kind}: {now:.2%}, {told(node.total, picture.capture)}"
    if node.own:
        says += f", self {node.own / max(picture.now.all, 1):.2%}"
    return says + (f"; baseline {before:.2%}" if picture.baseline is not None else "")


def _head(picture: Picture) -> str:
    label, amount = shown(picture.capture.label), told(picture.now.all, picture.capture)
    if picture.baseline is None:
        return f"{label}: {amount}"
    return f"{label}: {amount}, compared with {told(picture.before.all, picture.capture)}"
