"""cgroup.stat of the v2 root: live and dying cgroups, and live and dying for each controller.

Overhead: one read of a few hundred bytes; the kernel keeps the counters, so it does not grow with dying cgroups.
Kernel: cgroup_stat_show() in kernel/cgroup/cgroup.c. `nr_dying_descendants` since ec39225cca42 (in v4.14);
    `nr_subsys_*` and `nr_dying_subsys_*` since ab0312526867 (in v6.12); before, dying cgroups were not counted by
    controller. Controllers bound to a v1 hierarchy are not counted here.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts, whole
from zombiescope.kernel.text import counters

EVERY = 6.0
WITNESS = Witness.KERNEL
GIVES = ("cgroup_descendants", "cgroup_dying_descendants", "cgroup_subsys", "cgroup_dying_subsys")


def read(host: Host) -> Iterator[Reading | Blind]:
    unified = [mount for mount in cgroup_mounts(host) if mount.version == 2]
    if not unified:
        raise Unreadable(MOUNTINFO, "no cgroup2 file system is mounted")
    source = unified[0].path.rstrip("/") + "/cgroup.stat"
    if not whole(host, unified[0]):
        raise Unreadable(source, "only a part of the hierarchy is visible from this container")
    at = host.now()
    counts = parse(host.read(source), source)
    if "nr_dying_descendants" not in counts:
        yield Blind(what=GIVES[1], source=source, why="this kernel does not count dying cgroups")
    for key, value in counts.items():
        what, subject = _named(key)
        if what:
            yield Reading(what=what, subject=subject, value=value, at=at, source=source, text=f"{key} {value}")


# nr_descendants 41
# nr_subsys_memory 42
# nr_dying_descendants 68440
# nr_dying_subsys_memory 68440
def parse(text: str, source: str = "cgroup.stat") -> dict[str, int]:
    counts = counters(text, source)
    if "nr_descendants" not in counts:
        raise Unparsable(source, 1, text)
    return counts


def _named(key: str) -> tuple[str, str]:
    if key in ("nr_descendants", "nr_dying_descendants"):
        return key.replace("nr_", "cgroup_"), "hierarchy:v2"
    for prefix, what in (("nr_subsys_", "cgroup_subsys"), ("nr_dying_subsys_", "cgroup_dying_subsys")):
        if key.startswith(prefix):
            return what, f"controller:{key.removeprefix(prefix)}"
    return "", ""  # a counter that a newer kernel added: its meaning is not known
