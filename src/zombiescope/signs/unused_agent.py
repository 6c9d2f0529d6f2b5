"""An agent that nothing on this node uses runs here, or keeps trying to.

Why it hurts: images enable agents by default. An agent that is not registered anywhere fails, is restarted, and leaves
    something behind each time; it does no work that anybody would miss.
False alarms: an agent that is about to be set up, on a new node. An agent whose configuration is in an unusual place.
    All signs of use that were checked are in the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Finding, Reading
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.derived.unit_results import crashes

ENABLED, USE, USES, UNSEEN, LEAKS = "agent_enabled", "agent_use", "agent_uses", "agent_uses_unseen", "agent_leaks"
# Scale: agents are judged one by one: the same on any node.
NEEDS = (ENABLED,)


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    """Harm is required too: an idle daemon that nobody uses costs nothing that matters, and `audit` lists it."""
    if not timeline.looked("unit_active"):
        yield _unasked(timeline)
        return
    for subject in timeline.subjects(ENABLED, "unit"):
        enabled, uses, unseen, leaks = (timeline.series(what, subject) for what in (ENABLED, USES, UNSEEN, LEAKS))
        if not len(uses) or not len(unseen) or uses.latest.value > 0:
            continue
        harm = list(_harm(timeline, subject, known=bool(len(leaks) and leaks.latest.value)))
        if harm and unseen.latest.value > 0:
            if unseen.latest.text:
                yield Blind(what=USE, source=unseen.latest.source, why=unseen.latest.text)
        elif harm:
            yield _finding(timeline, enabled.latest, harm, uses.latest)


def _unasked(timeline: Timeline) -> Blind:
    """systemd alone knows which agents run; the files show only which are installed."""
    looks = timeline.looks("unit_active")
    why = f": {looks.latest.text}" if len(looks) and looks.latest.text else ""
    source = looks.latest.source if len(looks) and looks.latest.source else "$ systemctl list-units"
    return Blind(what="unit_active", source=source, why=f"which agents run is not known{why}")


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How many agents there are, and how many of them show signs of use."""
    enabled, uses = timeline.latest(ENABLED), timeline.latest(USES)
    used = sum(reading.value > 0 for reading in uses)
    looked = timeline.looks(ENABLED)
    return f"{len(enabled)} known agents installed, {used} with signs of use", (*enabled[:4], looked.latest)


def _finding(timeline: Timeline, enabled: Reading, harm: list[Reading], uses: Reading) -> Finding:
    looked = _looked(timeline, enabled.subject)
    says = f"is unused (none of {len(looked)} signs of use was found): {enabled.text}, {harm[0].text}"
    restarts = timeline.series("unit_restarts_total", enabled.subject)
    fails = harm[0].what == "unit_restarts_total"
    return Finding(
        subject=enabled.subject,
        span=timeline.span,
        says=says,
        evidence=(enabled, *harm, *looked, uses),
        harm=crashes(restarts, timeline.span) if fails else Harm(),  # what it leaves behind, zombie_cgroups says
    )


def _harm(timeline: Timeline, subject: str, *, known: bool) -> Iterator[Reading]:
    """It restarts during the recording, or it runs and is of a kind known to leave cgroups behind."""
    restarts, active = timeline.series("unit_restarts_total", subject), timeline.series("unit_active", subject)
    waits = len(restarts) and "auto-restart" in restarts.latest.text
    if len(restarts) and (waits or restarts.values[-1] > restarts.values[0]):
        yield restarts.latest
    elif known and len(active) and active.latest.value > 0:
        yield active.latest


def _looked(timeline: Timeline, subject: str) -> list[Reading]:
    """Every sign of use that was checked for this unit, with its source."""
    mine = f"use:{subject.removeprefix('unit:')}/"
    return [timeline.series(USE, it).latest for it in timeline.subjects(USE, "use") if it.startswith(mine)]
