"""Processes or threads are made so fast that starting and exiting is most of the work.

Why it hurts: a fork, exec and exit cost the kernel half a millisecond or more, in page tables and locks that others
    need as well; a thousand a second fill a core with system time, and each lives too short to show in ps or top.
False alarms: a large parallel build, or a test-suite of shell scripts. Measured on 2 cores: make -j2 of ordinary C
    files 65 a second, of one-line files 600, a configure script 530, a shell that does nothing but fork 1,100 to 1,600.
References: Documentation/filesystems/proc.rst, 1.7 (processes); threads are counted as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores
from zombiescope.derived.culprits import sampled_culprit, with_cgroup
from zombiescope.derived.waits import waited_anywhere
from zombiescope.knowledge.functions import shows

# Scale: grows with cores, evenly up to LINEAR and slower beyond.
NEEDS = ("forks_total",)
PER_CORE = 500.0  # a second for each core of the node: a quarter of what it can make, and more than any build does
FEWEST = 1_000.0  # a second: one script, whatever it runs, stays below on a node of one core or two
LINEAR = 16  # cores up to which what a node can make grows evenly: beyond, all wait for the same locks (pids, tasks)
BEYOND = 100.0  # a second for each core more: a builder of 192 cores makes 6,000, a quarter of what this allows
SECONDS = 3.0  # a service that starts its workers is done by then
BRIDGE = 0.5  # seconds: one sample below does not split a storm in two


def find(timeline: Timeline) -> Iterator[Finding]:
    many_cores = len(cores(timeline))
    many = max(FEWEST, PER_CORE * min(many_cores, LINEAR) + BEYOND * max(many_cores - LINEAR, 0))
    for storm in timeline.rate(NEEDS[0]).runs(above=many, lasting=SECONDS, bridging=BRIDGE):
        suspect = _whose_children(timeline, storm.span)
        culprit = sampled_culprit(timeline, storm.span, _forks)
        named = f"; most are made by {whose(timeline, culprit.process, culprit.cgroup)}" if culprit else ""
        if suspect:
            parent = with_cgroup(timeline, suspect, storm.span)
            named += f"; children of {whose(timeline, parent.process, parent.cgroup)} used most CPU time"
            culprit = culprit or parent
        yield Finding(
            subject="node",
            span=storm.span,
            says=f"made {storm.mean():,.0f} processes or threads a second for {lasting(storm.span.seconds)}{named}",
            evidence=(
                _figure(storm),
                *dict.fromkeys([*([suspect] if suspect else []), *(culprit.evidence if culprit else ())]),
            ),
            harm=_harm(timeline, suspect, storm.span),
            culprit=culprit.subject if culprit else "",
        )


def _forks(frames: Sequence[str]) -> bool:
    """Only those that make others: what is made has a pid of its own each time."""
    return shows(frames, "process_cloning")


def _harm(timeline: Timeline, suspect: Reading | None, span: Span) -> Harm:
    """The CPU time of the children that were made, and who else waited for the CPU."""
    if suspect is None:
        return Harm(unknown=("burnt",))
    counter = timeline.series("process_children_seconds_total", suspect.subject).between(span)
    seconds = max(float(counter.at[-1] - counter.at[0]), 1e-3)
    cores = (counter.latest.value - counter.first.value) / seconds
    waited = waited_anywhere(timeline, span, spent=cores)
    return Harm(parts=(Part(figure="burnt", who=suspect.subject, amount=cores, span=span, contended=waited),))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How many, where it is not a storm."""
    forks = timeline.rate(NEEDS[0])
    if not len(forks):
        return "", tuple(timeline.latest(NEEDS[0]))
    return f"{forks.mean():,.0f} new processes or threads a second", (_figure(forks),)


def _whose_children(timeline: Timeline, span: Span) -> Reading | None:
    """The process whose reaped children used most CPU time in the span: its counter's last reading."""
    what = "process_children_seconds_total"
    rises = []
    for subject in timeline.subjects(what):
        counter = timeline.series(what, subject).between(span)
        if len(counter) > 1:
            rises.append((counter.latest.value - counter.first.value, counter.latest))
    return max(rises, key=lambda rise: rise[0])[1] if rises else None


def _figure(rate: Series) -> Reading:
    return Reading(
        what="forks_per_second", subject="node", value=round(rate.mean(), 1), at=rate.span.start, source=rate.sources[0]
    )
