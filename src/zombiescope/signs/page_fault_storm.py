"""Programs touch so many new pages that page faults take most of the kernel's time, or wait for pages it dropped.

Why it hurts: a fault is kernel work on the core that touched the page, 0.5 µs on hardware and 2 to 8 µs in a nested
    virtual machine, and all threads of a program share the lock of its address space. A major fault waits for a disk.
False alarms: many faults are not a storm. A compiler makes 40,000 to 80,000 a second and spends a third of its time in
    the kernel, a shell that starts programs 150,000 and half: so the kernel's time must be most of what the node does,
    and the faults enough to explain it. The faults of new processes (200 each) are not counted.
References: Documentation/admin-guide/mm/concepts.rst; Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores, in_modes
from zombiescope.derived.culprits import Culprit, sampled_culprit, with_cgroup
from zombiescope.derived.waits import waited_anywhere
from zombiescope.knowledge.functions import shows

FAULTS, MAJOR, FORKS = "vmstat_pgfault_total", "vmstat_pgmajfault_total", "forks_total"
SWAPPED, DROPPED = "vmstat_pswpin_total", "vmstat_drop_pagecache_total"
WAITING = "pressure_memory_waiting_seconds_total"
_MODES = ("user", "nice", "system")
# Scale: CORES grows with cores; the others are ratios, and the pressure is the kernel's average over cores.
NEEDS = (FAULTS, MAJOR, *(f"cpu_{mode}_seconds_total" for mode in _MODES))
DENSE = 60_000.0  # faults for each second of kernel time, 17 µs each: no fault takes longer than that
SYSTEM = 0.6  # of the time the cores worked: compiling 0.3, starting programs 0.5, a storm 0.65 and more
CORES = 0.7  # cores' worth of kernel time: less harms nobody
OF_CORES = 0.02  # of the node's cores: on 192, programs that start and end take four without harm
PER_FORK = 300.0  # faults of a new process, not a storm: 200 measured for a shell that runs /bin/true
MAJORS = 100.0  # waits for a page a second, each 0.1 to 10 ms
THRASHING = 0.2  # of the time that some task waits for pages the node had dropped: a cold start does not count there
SECONDS = 3.0  # shorter is a program that starts up
BRIDGE = 1.5  # seconds: one better sample does not split a storm in two


def find(timeline: Timeline) -> Iterator[Finding]:
    minor = _minor(timeline)
    for storm in minor.runs(above=DENSE, lasting=SECONDS, bridging=BRIDGE):
        faults = timeline.rate(FAULTS).between(storm.span)
        system = _modes(timeline, storm.span, ("system",))
        busy = _modes(timeline, storm.span, _MODES)
        who = _who(timeline, storm.span)
        culprit = sampled_culprit(timeline, storm.span, lambda frames: shows(frames, "page_fault"))
        seen = culprit or (with_cgroup(timeline, who[0], storm.span) if who else None)
        yield Finding(
            subject="node",
            span=storm.span,
            says=(
                f"had {faults.mean():,.0f} page faults a second for {lasting(storm.span.seconds)}: {system:.1f} cores' "
                f"worth of kernel time ({percent(system / busy)} of all CPU time used), "
                f"{system / faults.mean() * 1e6:.1f} µs for each{_named(timeline, seen, sampled=bool(culprit))}"
            ),
            evidence=(
                _figure(faults, faults.mean()),
                _cores(timeline, storm.span, system),
                *dict.fromkeys((*who, *(culprit.evidence if culprit else ()))),
            ),
            harm=_harm(timeline, storm.span, system, who),
            culprit=seen.subject if seen else "",
        )
    waiting, major = timeline.rate(WAITING), timeline.rate(MAJOR)
    for spell in waiting.runs(above=THRASHING, lasting=SECONDS, bridging=BRIDGE):
        often = major.between(spell.span).mean()
        if often >= MAJORS:
            why = list(_why_dropped(timeline, spell.span))
            yield Finding(
                subject="node",
                span=spell.span,
                says=(
                    f"had {often:,.0f} major faults a second for {lasting(spell.span.seconds)}: dropped pages were "
                    f"needed again, and tasks waited for them {percent(spell.mean())} of the time"
                    + "".join(words for words, _ in why)
                ),
                evidence=(
                    _figure(major.between(spell.span), often),
                    _figure(spell, spell.mean()),
                    *(reading for _, reading in why),
                ),
                harm=Harm(parts=(Part(figure="waited", who="node", amount=spell.mean(), span=spell.span),)),
            )


def _why_dropped(timeline: Timeline, span: Span) -> Iterator[tuple[str, Reading]]:
    """Where the pages had gone: to swap, or somebody dropped the page cache by hand. What it says, and the evidence."""
    swapped = timeline.rate(SWAPPED).between(span)
    if len(swapped) and swapped.mean() >= 1:
        yield f"; {swapped.mean():,.0f} pages a second came back from swap", _figure(swapped, swapped.mean())
    dropped = timeline.series(DROPPED)
    if len(dropped) and (times := dropped.latest.value - dropped.first.value) > 0:
        yield f"; the page cache was dropped by hand {times:,.0f} times (drop_caches)", dropped.latest


def _harm(timeline: Timeline, span: Span, system: float, who: list[Reading]) -> Harm:
    """The kernel's time, of which the named process spent its own, and who else waited for the CPU."""
    waited = waited_anywhere(timeline, span, spent=system)
    spent = {"node": system} | {it.subject: min(it.value, system) for it in who}
    return Harm(
        parts=tuple(
            Part(figure="burnt", who=it, amount=used, span=span, contended=waited) for it, used in spent.items()
        )
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    faults, major = timeline.rate(FAULTS), timeline.rate(MAJOR)
    if not len(faults) or not len(major):
        return "", ()
    return (
        f"{faults.mean():,.0f} page faults a second, {major.mean():,.0f} of them major",
        (_figure(faults, faults.mean()), _figure(major, major.mean())),
    )


def _minor(timeline: Timeline) -> Series:
    """Faults for each second of kernel time, where kernel time is most of what the node does; else 0."""
    faults = timeline.rate(FAULTS)
    if not len(faults):
        return faults
    edges = np.append(faults.at, faults.until)
    system = in_modes(timeline, ("system",), edges)
    busy = system + in_modes(timeline, [it for it in _MODES if it != "system"], edges)
    forks = np.nan_to_num(np.diff(timeline.series(FORKS).sampled(edges)) / np.diff(edges))
    least = max(CORES, OF_CORES * len(cores(timeline)))
    storm = (system >= least) & (system >= SYSTEM * busy)
    dense = (faults.values - PER_FORK * forks) / np.maximum(system, least)
    return replace(faults, values=np.where(storm, dense, 0.0))


def _modes(timeline: Timeline, span: Span, modes: tuple[str, ...]) -> float:
    return float(in_modes(timeline, modes, np.array([span.start, span.end]))[0])


def _who(timeline: Timeline, span: Span) -> list[Reading]:
    """The process with most kernel time, if processes were sampled twice."""
    what = "process_system_seconds_total"
    rates = [timeline.rate(what, it, within=span) for it in timeline.subjects(what, "process")]
    known = [rate for rate in rates if len(rate) and rate.mean() > 0]
    return [_figure(most, most.mean()) for most in sorted(known, key=Series.mean, reverse=True)[:1]]


def _named(timeline: Timeline, culprit: Culprit | None, *, sampled: bool) -> str:
    if culprit is None:
        return ""
    name = whose(timeline, culprit.process, culprit.cgroup)
    return f"; most are of {name}" if sampled else f"; most kernel time: {name}"


def _cores(timeline: Timeline, span: Span, value: float) -> Reading:
    source = timeline.rate("cpu_system_seconds_total", timeline.subjects("cpu_system_seconds_total")[0]).sources[0]
    return Reading(what="kernel_cores", subject="node", value=round(value, 4), at=span.start, source=source)


def _figure(rate: Series, value: float) -> Reading:
    what = rate.what.removesuffix("_total") + "_per_second"
    return Reading(what=what, subject=rate.subject, value=round(value, 4), at=rate.span.start, source=rate.sources[0])
