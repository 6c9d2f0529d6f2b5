"""All that says what starts, and how, can be read.

Why it matters: what the other rules never saw they would pass. A unit file that is a FIFO, a device or larger than any
    unit is, a folder that is a link out of the image, is told here and the gate stays shut.
Passes: an image whose unit files are files.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection

WHEN = ("image", "look", "soak")


def look(image: Image) -> Iterator[Objection | Blind]:
    yield from image.unread_units()


def saw(image: Image) -> str:
    return f"units that start: {len(image.starting)}"
