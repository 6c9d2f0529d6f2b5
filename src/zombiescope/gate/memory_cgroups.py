"""The machine has more memory cgroups, live and dead together, than it was allowed.

Why it matters: a full node of 110 pods has a few hundred. More than a thousand on a machine fresh from its image are
    dead ones, and what made them is on the image.
Passes: fewer than --max-memcg, all the time that was looked.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._memory import COUNTED_FROM, memory_cgroups
from zombiescope.gate._objection import Objection

WHEN = ("look", "soak")
NEEDS = COUNTED_FROM


def look(image: Image) -> Iterator[Objection | Blind]:
    cgroups = memory_cgroups(image.timeline)
    most = float(cgroups.values.max())
    if most >= image.most_cgroups:
        yield Objection(
            subject="controller:memory",
            says=f"{most:,.0f} memory cgroups, live and dead; fewer than {image.most_cgroups:,} were allowed",
            where=cgroups.latest.source,
            fix=("zombiescope census --names tells whose they are", "zombiescope diagnose tells who makes them"),
        )


def saw(image: Image) -> str:
    most = float(memory_cgroups(image.timeline).values.max())
    return f"at most {most:,.0f} memory cgroups, {image.most_cgroups:,} are too many"
