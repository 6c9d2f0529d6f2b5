"""A core ran one thing in the kernel for so long that the kernel itself logged a warning.

Why it hurts: for those twenty seconds nothing else ran there: no softirq thread, no poll of a network queue, no task
    that is bound to the core. Connections time out and drivers reset.
False alarms: a virtual machine that was paused, migrated or starved by its host reports lockups of all cores at once.
    A stalled grace period (RCU) names the core that did not answer, which may have been starved rather than busy.
References: kernel/watchdog.c (twice kernel.watchdog_thresh, 20 s); Documentation/RCU/stallwarn.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import LOG, Line, lines_of, unheard

SYMPTOM = True
# Scale: events of one core: the same on any node.
NEEDS = (LOG,)
EPISODE = 60.0  # seconds: the kernel repeats itself every 20 s or so while a core is stuck
TOGETHER = 1.0  # seconds within which the lines of one stall come: first that there is one, then which core
SHOWN = 6  # lines of one episode, as evidence
_SOFT, _HARD, _RCU = "soft_lockup", "hard_lockup", "rcu_stall"


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    by_core: dict[str, list[Line]] = {}
    heading: Line | None = None
    for line in lines_of(timeline, _SOFT, _HARD, _RCU):
        core = line.message.fields.get("cpu")
        if core is None:
            if heading is not None:  # no line said which core it was about
                by_core.setdefault("node", []).append(heading)
            heading = line
            continue
        its = by_core.setdefault(f"cpu:{int(core[:9])}", [])
        if heading is not None and line.reading.at - heading.reading.at <= TOGETHER:
            its.append(heading)
            heading = None
        its.append(line)
    if heading is not None:
        by_core.setdefault("node", []).append(heading)
    for subject, lines in by_core.items():
        for episode in episodes(lines, lambda line: line.reading.at, apart=EPISODE):
            yield _finding(subject, episode)
    if deaf := unheard(timeline):
        yield deaf


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return f"no lockup in {len(timeline.series(LOG)):,} lines of the kernel's log", (timeline.looks(LOG).latest,)


def _finding(subject: str, lines: list[Line]) -> Finding:
    stuck = [(float(line.message.fields["seconds"][:9]), line) for line in lines if line.message.kind == _SOFT]
    kinds = {line.message.kind for line in lines}
    said = []
    if stuck:
        seconds, worst = max(stuck, key=lambda it: it[0])
        who = f"{worst.message.fields['process']}[{worst.message.fields['pid']}]"
        said.append(f"was stuck for {lasting(seconds)} in {who} (soft lockup)")
    if _HARD in kinds:
        said.append("did not take interrupts (hard lockup)")
    if _RCU in kinds:
        said.append("stalled an RCU grace period")
    # The kernel logs for how long the core has been stuck, so it began that long before the line.
    began = min([lines[0].reading.at, *(line.reading.at - seconds for seconds, line in stuck)])
    return Finding(
        subject=subject,
        span=Span(began, lines[-1].reading.at),
        says="; ".join(said),
        evidence=tuple(line.reading for line in lines[:SHOWN]),
        harm=_harm(subject, stuck),
    )


def _harm(subject: str, stuck: list[tuple[float, Line]]) -> Harm:
    """All that was to run on the core waited, one thread at least. Other stalls do not say for how long."""
    parts = [
        Part(figure="waited", who=subject, amount=1.0, span=Span(line.reading.at - seconds, line.reading.at))
        for seconds, line in stuck
    ]
    return Harm(parts=tuple(parts), unknown=() if parts else ("waited",))
