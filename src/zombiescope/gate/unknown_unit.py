"""A unit starts at boot that is not in the allow-list.

Why it matters: packages enable the units they ship. A list of what the image is for turns the next surprise into a
    failed build instead of three months of debugging.
Passes: units in the allow-list (--allow FILE; without one this rule is skipped), and essential units, which a machine
    needs to boot and to be reached: those need not be listed, if a package of the system owns them. A service of the
    same name as the timer, socket or path that triggers it goes with that one. On a running machine a known agent
    that runs without being enabled counts too. A unit that only D-Bus would start, at a call, is a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.unit_file import TRIGGERS, UnitFile
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, seen_by, systemctl

WHEN = ("image", "look", "soak")
NEEDS_LIST = True


def look(image: Image) -> Iterator[Objection | Blind]:
    for unit in _questionable(image):
        if not image.is_allowed(unit.name):
            yield Objection(
                subject=f"unit:{unit.name}",
                says=f"enabled by {', '.join(unit.enabled_by)}, but not in the allow-list",
                where=unit.path,
                fix=(systemctl("disable", unit.name), "or add it to the allow-list"),
            )
    for name in image.callable:
        if name not in image.essential.names and not image.is_allowed(name):
            yield Objection(
                subject=f"unit:{name}",
                says=f"{image.called(name)}not in the allow-list",
                where=image.files.unit(name).path,
                level="note",
                fix=(systemctl("mask", name), "or add it to the allow-list"),
            )
    for row in image.survey.rows if image.host.live else ():
        if row.agent and row.running and not row.starts and not row.essential and not image.is_allowed(row.unit):
            yield Objection(
                subject=f"unit:{row.unit}",
                says=f"known agent {row.agent.name} runs, is not enabled, and is not in the allow-list",
                where=row.path or seen_by("cat", row.unit),
                fix=(systemctl("stop", row.unit), "or add it to the allow-list"),
            )


def saw(image: Image) -> str:
    units = len(_questionable(image))
    return f"units that start at boot, without essential ones: {units}; allow-list entries: {len(image.allowed or ())}"


def _questionable(image: Image) -> list[UnitFile]:
    return [unit for unit in image.starting if unit.name not in image.essential.names and not _goes_along(unit)]


def _goes_along(unit: UnitFile) -> bool:
    stem = unit.name.rpartition(".")[0].removesuffix("@")
    return all(by.endswith(TRIGGERS) and by.rpartition(".")[0] == stem for by in unit.enabled_by)
