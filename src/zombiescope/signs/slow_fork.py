"""A large process forks, and each fork copies the page tables of all its memory.

Why it hurts: for each gigabyte in pages of 4 KB some ten milliseconds of kernel time, with the process's memory map
    locked: none of its threads can map or fault meanwhile. An agent that starts a small helper every moment takes
    cores that way, and the helper is blamed.
False alarms: a database that forks once to save itself, a job that starts its workers: that is over in seconds. Many
    small forks are another thing (fork_storm). So it must go on, and each fork must take long.
References: mm/memory.c, copy_page_range; posix_spawn(3) and vfork(2), which copy nothing;
    https://github.com/kubernetes/kubernetes/issues/61793
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import Work, by_process, length, spells, spent_in
from zombiescope.knowledge.functions import shows

# Scale: the time of one fork, and of one process: the same on any node.
NEEDS = ("samples_total", "kernel_symbols", "forks_total")
MUCH = 0.15  # of a core over the spell: a shell that does nothing but fork takes less for page tables
LONG = 0.005  # seconds for each process that is made on the node: a shell's takes 0.1 ms, one of 1 GB 10 ms
GOES_ON = 4.0  # seconds: one fork of 100 GB takes one or two


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject, samples in by_process(timeline.once(_copying)):
        for work in spells(subject, samples):
            cores, each = work.seconds / max(work.span.seconds, 1.0), _each(timeline, work)
            if cores >= MUCH and work.span.seconds >= GOES_ON and each is not None and each.value >= LONG:
                yield Finding(
                    subject=subject,
                    span=work.span,
                    says=(
                        f"spent {work.seconds:.1f} s of {length(timeline):.0f} s on copying its page tables for new "
                        f"processes, {each.value * 1e3:,.0f} ms for each"
                    ),
                    evidence=(work.samples.reading(subject, "page_table_sampled_seconds"), each),
                    harm=Harm(parts=tuple(work.burnt(timeline))),
                )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return spent_in(timeline, timeline.once(_copying), "page_table_sampled_seconds", "the copying of page tables")


def _copying(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "page_table_copy"))


def _each(timeline: Timeline, work: Work) -> Reading | None:
    """Seconds for each process made on the node meanwhile, by whomever: one of its own takes at least as long."""
    forks = timeline.rate("forks_total").between(work.span)
    if not len(forks) or not forks.mean() > 0:
        return None
    return forks.figure("seconds_a_fork", work.seconds / max(forks.mean() * work.span.seconds, 1.0))
