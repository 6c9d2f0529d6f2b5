"""How many memory cgroups a machine has, live and dying together, over a recording."""

from __future__ import annotations

from dataclasses import replace

from zombiescope.cgroups.census import count
from zombiescope.core import Unreadable
from zombiescope.core.timeline import Series, Timeline

# What it is counted from, on v1, v2 and hybrid.
COUNTED_FROM = (
    *("cgroups_known", "cgroup_hierarchy", "cgroup_version", "cgroup_folders"),
    *("cgroup_v2_controllers", "cgroup_dying_descendants"),
)


def memory_cgroups(timeline: Timeline | None) -> Series:
    """The kernel's own count. Raises Unreadable if nothing counts them."""
    census = next((it for it in count(timeline or Timeline()) if "memory" in it.controllers), None)
    if census is None or timeline is None:
        raise Unreadable("/proc/cgroups", "memory cgroups could not be counted, neither by the kernel nor by folders")
    known = timeline.series("cgroups_known", "controller:memory")
    if census.evidence[0].what == "cgroups_known":  # v1: the kernel counts both together
        return known
    live = timeline.series(census.evidence[1].what, census.evidence[1].subject)
    both = live.sampled(census.dying.at) + census.dying.values
    return replace(census.dying, what="cgroups_known", values=both, texts={})
