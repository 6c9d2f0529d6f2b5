"""cgroup.controllers of the v2 root: which controllers are bound to v2 at all.

Overhead: one read of 60 bytes, once a minute.
Kernel: Documentation/admin-guide/cgroup-v2.rst. /proc/cgroups gives hierarchy 0 to those and to controllers that are
    bound to nothing, so it cannot distinguish them.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts

EVERY = 60.0
GIVES = ("cgroup_v2_controllers",)


def read(host: Host) -> Iterator[Reading]:
    unified = [mount for mount in cgroup_mounts(host) if mount.version == 2]
    if not unified:
        raise Unreadable(MOUNTINFO, "no cgroup2 file system is mounted")
    source = unified[0].path.rstrip("/") + "/cgroup.controllers"
    at = host.now()
    text = host.read(source, most=4096)
    names = parse(text)
    # On a hybrid machine all may be bound to v1: 0 is an answer too, so the number is always given.
    for subject, number in {"node": len(names), **{f"controller:{name}": 1 for name in names}}.items():
        yield Reading(what=GIVES[0], subject=subject, value=number, at=at, source=source, text=text.strip())


# cpuset cpu io memory hugetlb pids rdma misc
def parse(text: str) -> list[str]:
    """v2 calls blkio "io"; both names are given, since /proc/cgroups has the old one."""
    names = text.split()
    return [*names, *(["blkio"] if "io" in names else [])]
