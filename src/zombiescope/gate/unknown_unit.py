"""A unit starts with this image that nobody listed.

Why it matters: packages enable what they bring. A list of what the image is for turns the next such surprise into a
    red build, and not into three months of looking.
Passes: what the list names (--allow FILE; without one this rule is skipped), and units that a machine needs to be a
    machine, or to be reached: those need not be listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.unit_files import UnitFile
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection
from zombiescope.knowledge.units import never_judge

WHEN = ("image", "look", "soak")
NEEDS_LIST = True


def look(image: Image) -> Iterator[Objection | Blind]:
    for unit in _questionable(image):
        if not image.is_allowed(unit.name):
            yield Objection(
                subject=f"unit:{unit.name}",
                says=f"enabled by {', '.join(unit.enabled_by)}, and not in the allow-list",
                where=unit.path,
                fix=(f"systemctl disable {unit.name}", "or add it to the allow-list"),
            )


def saw(image: Image) -> str:
    units = len(_questionable(image))
    return f"units that start beside the essential ones: {units}; patterns that allow them: {len(image.allowed or ())}"


def _questionable(image: Image) -> list[UnitFile]:
    return [unit for unit in image.starting if not never_judge(unit.name)]
