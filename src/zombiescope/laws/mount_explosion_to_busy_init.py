"""PID 1 reads the whole table of mounts whenever one comes or goes, so a long table keeps it busy."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_processes import processes
from zombiescope.knowledge.functions import shows

WITHIN = 30.0  # seconds: the table is long for as long as PID 1 reads it
LEAST = 0.2  # of PID 1's time in stacks that print mounts: with less something else keeps it busy


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    own = [
        it for name, pid, it in processes(timeline.samples(effect.span)) if effect.subject == f"process:{name}[{pid}]"
    ]
    table = [it.where(lambda frames: shows(frames, "mount_table")) for it in own]
    if own and table[0].seconds >= LEAST * own[0].seconds > 0:
        yield Ground(
            kind="mechanism",
            says="seen in stacks: it reads the table of mounts",
            evidence=(table[0].reading(effect.subject, "mounts_sampled_seconds"), cause.evidence[0]),
        )
