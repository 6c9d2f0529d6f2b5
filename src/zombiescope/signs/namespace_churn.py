"""Mounts or network namespaces are made and removed all the time.

Why it hurts: each change of a mount makes everybody who follows mounts (PID 1, kubelet, udisks) read the whole table
    again, under one lock; each network namespace is made and removed under the lock of all network settings (RTNL),
    for which every pod that starts, and every `ip`, waits. Probes by exec and short jobs in sandboxes do it.
False alarms: a node that starts many containers makes many. So it is noted, with who does it: who pays shows as
    busy_init, kernel_lock or blocked_tasks.
References: fs/namespace.c; net/core/net_namespace.c; https://github.com/systemd/systemd/issues/31137
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.culprits import sampled_culprit
from zombiescope.derived.sampled_work import length, spells, spent_in
from zombiescope.knowledge.functions import shows

# Scale: the time of one lock, which a node has once however large it is.
NEEDS = ("samples_total", "kernel_symbols")
MUCH = 0.15  # of a core over the spell: a container that starts takes a few milliseconds
LONG = 2.0  # seconds in all: a node that boots its pods is done by then
_KINDS = {"mount_change": "mounts", "netns_change": "network namespaces"}


def find(timeline: Timeline) -> Iterator[Finding]:
    for family, called in _KINDS.items():
        for work in spells(f"table:{called}", timeline.once(_changing, family)):
            cores = work.seconds / max(work.span.seconds, 1.0)
            if cores < MUCH or work.seconds < LONG:
                continue
            maker = sampled_culprit(timeline, work.span, partial(_changes, family=family))
            by = f"; most by {whose(timeline, maker.process, maker.cgroup)}" if maker else ""
            yield Finding(
                subject=f"table:{called}",
                span=work.span,
                says=f"are made and removed all the time: {work.seconds:.1f} s of {length(timeline):.0f} s{by}",
                evidence=(work.samples.reading(f"table:{called}", f"{family}_sampled_seconds"),),
                culprit=maker.subject if maker else "",
                harm=Harm(),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    most = max((timeline.once(_changing, it) for it in _KINDS), key=lambda it: it.seconds)
    return spent_in(timeline, most, "namespace_change_sampled_seconds", "changes of mounts or network namespaces")


def _changing(timeline: Timeline, family: str) -> Samples:
    return timeline.samples(wanted=lambda frames: _changes(frames, family))


def _changes(frames: Sequence[str], family: str) -> bool:
    """Without the time in which a file system itself is read when it is mounted, or written when it goes."""
    return shows(frames, family) and not shows(frames, "file_system_start")
