"""A known agent starts at boot, and nothing on this image configures it.

Why it matters: images enable agents by default. An agent with nothing to register with fails, is restarted, and leaves
    something behind each time; its work is not missed, so the loop goes unnoticed.
Passes: an agent whose configuration is on the image, that another unit needs, or that the allow-list names because it
    is configured at boot. An image that is not running has no processes and no cgroups, so only files and enabled
    units can show use: without any, an agent that is known to leak is an error, any other is a note. So is one that
    only D-Bus would start, at a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from zombiescope.audit.survey import Row
from zombiescope.audit.use import Seen, Use
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, seen_by
from zombiescope.knowledge.agents import Agent

WHEN = ("image", "look", "soak")
_AT_REST = ("file_exists", "file_contains", "folder_filled")  # signs of use that an image can show


def look(image: Image) -> Iterator[Objection | Blind]:
    for row in _agents(image):
        agent, use = row.agent, row.use
        if agent is None or use is None or use.answer == "used" or image.is_allowed(row.unit):
            continue
        unseen = [seen for seen in use.seen if seen.held is None]
        if use.answer == "unused":
            yield _objection(image, row, agent, use.says, "error")
        elif not agent.claim:
            continue  # its use leaves no trace
        elif not image.host.live:
            yield from _at_rest(image, row, agent, use, unseen)
        elif unseen:
            yield Blind(what=row.unit, source=min(it.source for it in unseen), why=use.says)


def saw(image: Image) -> str:
    return f"known agents that start: {', '.join(row.unit for row in _agents(image)) or 'none'}"


def _agents(image: Image) -> list[Row]:
    agents = [row for row in image.survey.rows if row.agent and not row.essential]
    return [row for row in agents if row.starts or row.running or row.unit in image.callable]


def _at_rest(image: Image, row: Row, agent: Agent, use: Use, unseen: list[Seen]) -> Iterator[Objection | Blind]:
    """An image has no processes or cgroups to check; a file that exists and cannot be read is blind."""
    for seen in unseen:
        if seen.sign.kind in _AT_REST:
            yield Blind(what=row.unit, source=seen.source, why=seen.says)
    wanted = [seen.sign.pattern for seen in use.seen if seen.sign.kind == "unit_active"]
    users = [unit.name for unit in image.starting if any(fnmatchcase(unit.name, pattern) for pattern in wanted)]
    absent = [seen for seen in use.seen if seen.held is False and seen.sign.kind in _AT_REST]
    if absent and not users:
        says = f"starts, and none of the {len(absent)} files that would configure it exists"
        yield _objection(image, row, agent, says, "error" if agent.leaks else "note")


def _objection(image: Image, row: Row, agent: Agent, says: str, level: str) -> Objection:
    leaks = f"; known to leak: {agent.leaks}" if agent.leaks else ""
    by = f"enabled by {', '.join(row.enabled_by)}: " if row.enabled_by else image.called(row.unit)
    return Objection(
        subject=f"unit:{row.unit}",
        says=f"{by}{says}{leaks}",
        where=row.path or seen_by("cat", row.unit),
        level="note" if image.called(row.unit) and not row.running else level,
        fix=(*agent.fix, "or, if it is configured at boot, add it to the allow-list"),
    )
