"""A zombie keeps its process number until its parent reaps it, so enough of them leave none for new threads."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 60.0  # seconds: both are states that last
LEAST = 0.3  # of the table: with fewer zombies it would be as good as full without them


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if effect.subject != "table:threads":
        return
    used, limit = (timeline.series(what, effect.subject) for what in ("table_used", "table_limit"))
    children = timeline.series("defunct_children", cause.subject)
    if not len(children) or not len(limit) or children.latest.value < LEAST * limit.latest.value:
        return
    says = f"{children.latest.value:,.0f} of the {used.latest.value:,.0f} in use are zombies of one parent"
    yield Ground(kind="dose", says=says, evidence=(children.latest, used.latest, limit.latest))
