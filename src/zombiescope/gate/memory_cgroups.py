"""The machine has more memory cgroups, live and dying together, than allowed.

Why it matters: a full node of 110 pods has a few hundred. More than a thousand on a machine just booted from its image
    are dying ones, and what created them is on the image.
Passes: fewer than --max-memcg in every sample.
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
            says=f"{most:,.0f} memory cgroups, live and dying; the limit is {image.most_cgroups:,} (--max-memcg)",
            where=cgroups.latest.source,
            fix=("zombiescope census --names names them", "zombiescope diagnose names what creates them"),
        )


def saw(image: Image) -> str:
    most = float(memory_cgroups(image.timeline).values.max())
    return f"at most {most:,.0f} memory cgroups; the limit is {image.most_cgroups:,}"
