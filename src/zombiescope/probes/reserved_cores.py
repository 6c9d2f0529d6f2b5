"""Cores that an administrator set apart: isolcpus=, nohz_full=, and cgroups that have cores to themselves.

Overhead: two reads of a few bytes and, where cpuset is mounted, one read for each of its folders one level down.
Kernel: /sys/devices/system/cpu/isolated (v4.2), nohz_full (v4.2); cpuset.cpus.exclusive.effective of cgroup v2 (v6.7),
    cpuset.cpus.partition before it (v5.0), cpuset.cpu_exclusive of v1. The root's own files do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts
from zombiescope.kernel.text import cores

EVERY = 60.0
GIVES = ("cpu_reserved",)
CORE_LISTS = {"isolated": "/sys/devices/system/cpu/isolated", "nohz_full": "/sys/devices/system/cpu/nohz_full"}
MOST = 500  # folders that are read: cores are set apart near the root


def read(host: Host) -> Iterator[Reading]:
    at, seen = host.now(), 0
    for words, path in CORE_LISTS.items():
        try:
            text = host.read(path).replace("(null)", "")
        except Unreadable:
            continue
        seen += 1
        yield from _readings(text, path, words, at)
    for mount in cgroup_mounts(host):
        if mount.version == 2 or "cpuset" in mount.controllers:
            yield from _exclusive(host, mount, at)
    if not seen:
        raise Unreadable(CORE_LISTS["isolated"], "neither isolated nor nohz_full cores are listed")


def _exclusive(host: Host, mount: CgroupMount, at: float) -> Iterator[Reading]:
    for name in host.listing(mount.path)[:MOST]:
        folder = f"{mount.path}/{name}"
        try:
            if mount.version == 1:
                exclusive, file = host.read(f"{folder}/cpuset.cpu_exclusive").strip() == "1", "cpuset.cpus"
            else:
                kind = host.read(f"{folder}/cpuset.cpus.partition").split()
                exclusive, file = bool(kind) and kind[0] in ("root", "isolated"), "cpuset.cpus.effective"
            if exclusive:
                yield from _readings(host.read(f"{folder}/{file}"), f"{folder}/{file}", f"exclusive to /{name}", at)
        except Unreadable:
            continue  # a file, or a cgroup without the controller


def _readings(text: str, source: str, words: str, at: float) -> Iterator[Reading]:
    try:
        found = cores(text, source)
    except Unparsable:
        return
    for cpu in found:
        yield Reading(what=GIVES[0], subject=f"cpu:{cpu}", value=1, at=at, source=source, text=words)
