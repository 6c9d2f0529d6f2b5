"""A unit file or folder cannot be read.

Why it matters: the other rules would pass what they never read. A unit file that is a FIFO, a device or far too large,
    or a unit folder that links out of the image, is reported here, and the gate does not pass.
Passes: an image whose unit files are regular, readable files. Without a package database a note says that units of
    the system cannot be distinguished from others of such names.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.boot import generators
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection

WHEN = ("image", "look", "soak")


def look(image: Image) -> Iterator[Objection | Blind]:
    yield from image.unread_units()
    if why := image.essential.unknown:
        yield Objection(
            subject="packages",
            says=f"units with the names of essential ones are judged like any other: no package is known ({why})",
            where="/var/lib/dpkg, /usr/lib/sysimage/rpm",
            level="note",
            fix=("keep the package database in the image, or list the units in the allow-list",),
        )


def saw(image: Image) -> str:
    more = generators(image.host)
    also = f"; generators may add others at boot: {', '.join(more)}" if more and not image.host.live else ""
    return f"units that start at boot: {len(image.starting)}{also}"
