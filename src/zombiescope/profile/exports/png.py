"""A flame graph as pixels, where no SVG can be shown. Needs Pillow, which draws the names."""

from __future__ import annotations

from typing import IO

from zombiescope.core import UserError
from zombiescope.profile.exports._layout import TALL, WIDTH, drawn, fitting
from zombiescope.profile.picture import Picture

SUFFIX, BINARY, COMPARES = ".png", True, True
_EDGE, _HEAD, _FINE = 10, 26, 2  # of the last: pixels drawn for each, for screens that have them
_INK, _PAGE = (16, 20, 26), (255, 255, 255)


def write(picture: Picture, out: IO[bytes]) -> None:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise UserError("PNG needs an extra: pipx install --force 'zombiescope[web]'; SVG needs none") from None
    drawing = drawn(picture)
    width, height = WIDTH + 2 * _EDGE, drawing.levels * TALL + 2 * _HEAD
    image = Image.new("RGB", (width * _FINE, height * _FINE), _PAGE)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(11 * _FINE)
    for text, y in ((drawing.head, 7), (drawing.foot, height - 20)):
        draw.text((_EDGE * _FINE, y * _FINE), fitting(text, WIDTH), _INK, font)
    for box in drawing.boxes:
        x, y = _EDGE + box.x, _HEAD + (drawing.levels - 1 - box.level) * TALL
        right = max((x + box.width) * _FINE - 2, x * _FINE)  # a pixel stays free between neighbours
        draw.rectangle((x * _FINE, y * _FINE, right, (y + TALL - 1) * _FINE - 1), box.colour)
        if text := fitting(box.name, box.width):
            draw.text(((x + 3) * _FINE, (y + 1) * _FINE), text, _INK, font)
    image.save(out, "PNG")
