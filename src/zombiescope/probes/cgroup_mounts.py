"""/proc/self/mountinfo: which cgroup hierarchies are mounted, v1 or v2, and for which controllers.

Overhead: one read of the mount table, about 1 µs a mount.
Kernel: Documentation/filesystems/proc.rst, 3.5. `stat -f` of /sys/fs/cgroup cannot distinguish v1 from hybrid: both are
    tmpfs.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts

EVERY = 60.0
GIVES = ("cgroup_version",)


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    mounts = cgroup_mounts(host)
    if not mounts:
        raise Unreadable(MOUNTINFO, "no cgroup file system is mounted")
    for mount in mounts:
        for subject in mount.subjects:
            yield Reading(what=GIVES[0], subject=subject, value=mount.version, at=at, source=MOUNTINFO, text=mount.line)
