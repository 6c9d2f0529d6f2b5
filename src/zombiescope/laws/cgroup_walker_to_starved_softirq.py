"""The flush of cgroup statistics runs with interrupts off, so its core takes no packets while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.gaps import core_gaps
from zombiescope.derived.softirq_times import seen_waiting
from zombiescope.derived.visits import late, visits_of

WITHIN = 2.0  # seconds: both are there while the walk goes on
MOSTLY = 0.5  # of the time with interrupts off that ends in such a stack: less, and something else keeps them off


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    gaps = timeline.once(core_gaps, effect.subject).between(effect.span)
    visiting = visits_of(timeline, cause.subject).within(effect.span)
    mine = late(visiting.only(visiting.cpu == int(effect.subject.removeprefix("cpu:"))))
    off, all_off = mine.seconds, float(gaps.values.sum())
    if len(gaps) and len(mine) and off >= MOSTLY * all_off > 0:
        yield Ground(
            kind="mechanism",
            says=f"seen in stacks: {off:.2f} s of {all_off:.2f} s with interrupts off end in this walk",
            evidence=(
                gaps.reading(int(gaps.values.argmax())),
                mine.reading(effect.subject, "visit_sampled_seconds"),
            ),
        )
        yield from seen_waiting(cause, effect, timeline)
