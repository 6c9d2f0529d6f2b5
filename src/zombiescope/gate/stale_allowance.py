"""An entry of the allow-list is past its review date, or names a unit that is not there any more.

Why it matters: agents are added to a list and never taken off it. The next unit of that name starts without a question,
    and nobody remembers who wanted the first one.
Passes: entries whose `review_by` is today or later, and whose unit is installed. Bare patterns in `units` have no
    lifecycle and may name what only some images have.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection

WHEN = ("image", "look", "soak")
NEEDS_LIST = True


def look(image: Image) -> Iterator[Objection | Blind]:
    installed = image.installed
    for entry in image.allowed or ():
        if not entry.place:
            continue
        by = f" (owner: {entry.owner})" if entry.owner else ""
        if entry.review_by is not None and entry.review_by < image.today:
            yield Objection(
                subject=f"allow:{entry.unit}",
                says=f"entry {entry.place} was to be reviewed by {entry.review_by}{by}",
                where=entry.where,
                fix=("ask its owner whether it is still needed: set a new review_by, or remove it and the agent",),
            )
        if not any(entry.covers(name) for name in installed):
            yield Objection(
                subject=f"allow:{entry.unit}",
                says=f"entry {entry.place} allows a unit that is not installed{by}",
                where=entry.where,
                fix=("remove the entry",),
            )


def saw(image: Image) -> str:
    entries = [entry for entry in image.allowed or () if entry.place]
    dates = [entry.review_by for entry in entries if entry.review_by is not None]
    soonest = f"; the next review is due by {min(dates)}" if dates else ""
    return f"allow-list entries with a lifecycle: {len(entries)}{soonest}"
