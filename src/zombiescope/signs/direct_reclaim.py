"""Tasks must free memory themselves before they get any: on the whole node, or in a cgroup at its memory limit.

Why it hurts: a task that asks for a page must first find others to drop, and waits. A container at its limit does so
    for every page while the node has memory to spare, and no counter of the node shows it.
False alarms: a cgroup that streams files hits its limit thousands of times a second and hardly waits: its clean pages
    are dropped in a microsecond. So the waiting (PSI) counts, not the hits. On the node, kswapd's own work counts as
    waiting too and is subtracted.
References: Documentation/accounting/psi.rst; Documentation/admin-guide/cgroup-v2.rst, memory.events.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.cgroups.owners import one_for_pod, owner
from zombiescope.core import Blind, Finding, Reading, Span, amount, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import WAITING, cores, stalled_for_memory

BY_CGROUP = "cgroup_memory_stall_seconds_total"
HITS = "cgroup_limit_hits_total"
# Scale: a cgroup's own share on any node; what blames the whole node grows with its cores.
NEEDS = (WAITING,)
STALLED = 0.3  # cores' worth of waiting: streaming at a limit costs 0.02 to 0.25, writing and thrashing there 0.4 to 1
OF_CORES = 0.01  # of the node's cores, to blame it as a whole: streaming a large dataset makes 192 cores wait for 0.8
SHARE = 0.2  # of the time of a cgroup whose own waiting is known: streaming 0.02 to 0.15, thrashing 0.3 and more
SECONDS = 3.0  # shorter is a program that starts up
BRIDGE = 1.5  # seconds: one better sample does not split a period in two
HITTING = 10.0  # times a second at the limit: fewer cannot add up to a third of a core
MOSTLY = 0.2  # of all hits: v1 does not say which cgroup waited, so those that hit their limits most are named
DIRECT = 1.0  # times a second that a task on the node had to reclaim memory itself (allocstall)


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    waiting = one_for_pod(_by_own_waiting(timeline))
    yield from waiting
    for spell in timeline.once(stalled_for_memory).runs(above=STALLED, lasting=SECONDS, bridging=BRIDGE):
        # Where cgroups report their own waiting, one that hits its limit without waiting is not blamed.
        limited = [] if timeline.looked(BY_CGROUP) else one_for_pod(_at_limits(timeline, spell))
        blamed = [*_node(timeline, spell), *limited]
        yield from blamed
        if not blamed and not waiting and spell.mean() >= _least(timeline):
            why = f"{_waited(spell)}, but no reclaim was seen: compaction, thrashing or a cgroup without a limit"
            yield Blind(what=HITS, source=spell.sources[0], why=why)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How long tasks waited, where it was too short to report."""
    stalled = timeline.once(stalled_for_memory)
    if not len(stalled):
        return "", ()
    waited = percent(max(stalled.mean(), 0), 1)
    return f"tasks waited for memory {waited} of a core's time", (_over(stalled, stalled.mean()),)


def _least(timeline: Timeline) -> float:
    return max(STALLED, OF_CORES * len(cores(timeline)))


def _node(timeline: Timeline, spell: Series) -> Iterator[Finding]:
    if spell.mean() < _least(timeline):
        return
    rates = [timeline.rate(f"vmstat_{name}_total") for name in ("allocstall", "pgscan_direct", "compact_stall")]
    stalls, scans, compactions = rates
    often, pages, compacted = (rate.between(spell.span).mean() if len(rate) else 0.0 for rate in rates)
    if compacted >= DIRECT and not often >= DIRECT:
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"moved pages {compacted:,.0f} times a second to make large free blocks (direct compaction); "
                f"{_waited(spell)}"
            ),
            evidence=(_over(spell, spell.mean()), _figure(compactions, spell.span, compacted)),
            harm=_harm("node", spell.span, spell.mean()),
        )
    if often >= DIRECT and pages > 0:
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"did direct reclaim {often:,.0f} times a second ({pages:,.0f} pages scanned a second); "
                f"{_waited(spell)}"
            ),
            evidence=(
                _over(spell, spell.mean()),
                _figure(stalls, spell.span, often),
                _figure(scans, spell.span, pages),
                *([_figure(compactions, spell.span, compacted)] if compacted > 0 else []),
            ),
            harm=_harm("node", spell.span, spell.mean()),
        )


def _at_limits(timeline: Timeline, spell: Series) -> Iterator[Finding]:
    """v1: the waiting is counted for the node, the hits for the cgroup."""
    rates = {subject: timeline.rate(HITS, subject) for subject in timeline.subjects(HITS, "cgroup")}
    often = {subject: float(np.nan_to_num(rate.between(spell.span).mean())) for subject, rate in rates.items()}
    hitting = {subject: times for subject, times in often.items() if times >= HITTING}
    for subject, times in hitting.items():
        if times >= MOSTLY * sum(hitting.values()):
            says = _waited(spell)
            if len(hitting) > 1:
                says += f"; {len(hitting)} cgroups hit their limits, and v1 does not say which one waited"
            waits = spell.mean() * times / sum(hitting.values())
            yield _limited(timeline, subject, spell.span, says, times, _over(spell, spell.mean()), waits)


def _by_own_waiting(timeline: Timeline) -> Iterator[Finding]:
    """v2: the cgroup's own pressure."""
    for subject in timeline.subjects(BY_CGROUP, "cgroup"):
        waiting, hits = timeline.rate(BY_CGROUP, subject), timeline.rate(HITS, subject)
        for spell in waiting.runs(above=SHARE, lasting=SECONDS, bridging=BRIDGE):
            times = hits.between(spell.span).mean()
            if times >= HITTING:
                length = lasting(spell.span.seconds)
                says = f"its tasks waited for memory {percent(spell.mean())} of the time for {length}"
                waited = _figure(waiting, spell.span, spell.mean())
                yield _limited(timeline, subject, spell.span, says, times, waited, spell.mean())


def _limited(
    timeline: Timeline, subject: str, span: Span, says: str, times: float, waited: Reading, waits: float
) -> Finding:
    usage, limit = (timeline.series(f"cgroup_memory_{name}_bytes", subject) for name in ("usage", "limit"))
    full = (usage.latest, limit.latest) if len(usage) and len(limit) else ()
    at = f" of {amount(limit.latest.value)}" if full else ""
    whose = f"; owner: {owned}" if (owned := owner(timeline, subject)) else ""
    return Finding(
        subject=subject,
        span=span,
        says=f"hit its memory limit{at} {times:,.0f} times a second and did direct reclaim each time; {says}{whose}",
        evidence=(waited, _figure(timeline.rate(HITS, subject), span, times), *full),
        harm=_harm(subject, span, waits),
    )


def _harm(subject: str, span: Span, waits: float) -> Harm:
    """Of a cgroup that reports its own pressure at least this much: the kernel counts the time, not the tasks."""
    return Harm(parts=(Part(figure="waited", who=subject, amount=waits, span=span),))


def _waited(spell: Series) -> str:
    return f"tasks waited for memory {spell.mean():.2f} s of each second for {lasting(spell.span.seconds)}"


def _over(series: Series, value: float) -> Reading:
    return Reading(
        what=series.what,
        subject="node",
        value=round(value, 4),
        at=series.span.start,
        source="$ cat /proc/pressure/memory /proc/stat",
    )


def _figure(rate: Series, span: Span, value: float) -> Reading:
    what = rate.what.removesuffix("_total") + "_per_second"
    return Reading(what=what, subject=rate.subject, value=round(value, 4), at=span.start, source=rate.sources[0])
