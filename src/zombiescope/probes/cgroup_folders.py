"""Folders of each cgroup hierarchy: the live cgroups of every v1 hierarchy and of v2.

Overhead: one stat per live cgroup and one readdir per cgroup that has children (about 3 µs each; 65 µs for a quiet
    machine, 1 ms for 240 cgroups). Dying cgroups have no folder, so it does not grow with them.
Kernel: kernfs keeps a folder's link count at two plus its subfolders (kernfs_refresh_inode() in fs/kernfs/inode.c),
    so leaves are counted without being opened. From inside a container only a part of the tree can be seen; then this
    is blind rather than wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.witness import Witness
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts, whole

EVERY = 6.0
WITNESS = Witness.KERNEL
GIVES = ("cgroup_folders",)


def read(host: Host) -> Iterator[Reading | Blind]:
    mounts = cgroup_mounts(host)
    if not mounts:
        raise Unreadable(MOUNTINFO, "no cgroup file system is mounted")
    unseen: list[Blind] = []
    for mount in mounts:
        source = f"{shown_by('find', mount.path, '-type', 'd')} | wc -l"
        at = host.now()
        try:
            if not whole(host, mount):
                raise Unreadable(mount.path, "only a part of the hierarchy is visible from this container")
            count = host.folders(mount.path)
        except Unreadable as error:
            unseen.append(Blind(what=GIVES[0], source=source, why=error.why, subject=mount.subjects[0]))
            continue
        for subject in mount.subjects:
            yield Reading(what=GIVES[0], subject=subject, value=count, at=at, source=source)
    if len(unseen) == len(mounts):
        raise Unreadable(unseen[0].source, unseen[0].why)
    yield from unseen
