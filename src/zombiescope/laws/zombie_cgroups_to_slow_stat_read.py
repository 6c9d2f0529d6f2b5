"""A read of the root's statistics visits every cgroup, so it takes longer the more dying cgroups there are."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: dying cgroups stay, and the read is done at most once in ten minutes
CHEAPEST = 0.3e-6  # seconds for each cgroup: a flush of changed statistics on Linux 6.x
DEAREST = 300e-6  # seconds for each cgroup: a walk on Linux 5.4 with many cores


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject != "controller:memory":
        return
    spent = next((it for it in effect.evidence if it.what == "stat_read_cpu_seconds"), None)
    dead = next((it for it in cause.evidence if it.what in ("cgroups_known", "cgroup_dying_subsys")), None)
    if spent is None or dead is None or dead.value <= 0:
        return
    each = spent.value / dead.value
    if CHEAPEST <= each <= DEAREST:
        yield Ground(
            kind="dose",
            says=f"{spent.value * 1e3:.0f} ms is {each * 1e6:.1f} µs for each of {dead.value:,.0f}, as a visit costs",
            evidence=(spent, dead),
        )
