"""Scopes of systemd, read from its cgroups: how many there are, and which are empty.

Overhead: 0.2 ms on a quiet machine. One listing for each slice, 15 µs (v2) to 30 µs (v1) for each scope checked, at
    most `MOST` of them, and 1.2 µs for each name: 10 ms with 300 containers, 55 ms where a leak has left 20,000.
    PID 1, which such a leak slows down, is not asked.
Kernel: cgroup.events (populated) on v2; on v1 cgroup.procs of the scope and of all below it. Only scopes directly in
    slices belong to this systemd: deeper ones belong to another systemd, a user's or a container's. As with the probe
    systemd_units, the environment variable ZOMBIESCOPE_SYSTEMD_BUS selects another systemd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.audit.systemd import address_for, another_init, cgroup_prefix
from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.witness import Witness
from zombiescope.kernel.mounts import MOUNTINFO, CgroupMount, cgroup_mounts, whole
from zombiescope.kernel.text import lines

EVERY = 30.0
WITNESS = Witness.NAMES
GIVES = ("scopes", "empty_scopes")
MOST = 1_000  # scopes checked: three for each pod of a very full node
SLICES = 2_000  # listed at most: a full node has one for each of 110 to 500 pods
TOLD = 100  # empty ones reported by name
DEEP = 100  # cgroups checked below one scope: a container that runs a systemd has about fifty
# What systemd allows in a unit's name. A folder with another name is not a unit.
_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+\.scope")


def read(host: Host) -> Iterator[Reading | Blind]:
    if other := another_init(host):
        raise Unreadable("/proc/1/comm", f"PID 1 is {other}: no systemd runs, so no scope was checked")
    mounts = cgroup_mounts(host)
    its = [it for it in mounts if it.name == "systemd"] or [it for it in mounts if it.version == 2]
    if not its:
        raise Unreadable(MOUNTINFO, "no cgroup hierarchy of systemd is mounted")
    mount = its[0]
    if not whole(host, mount):
        raise Unreadable(mount.path, "only a part of the hierarchy is visible from this container")
    top = mount.path + (cgroup_prefix(host, address_for(host)) if host.live else "")
    at = host.now()
    found = sorted(_scopes(host, top))
    source = shown_by("find", top, "-name", "*.scope")
    yield Reading(what=GIVES[0], subject="node", value=len(found), at=at, source=source)
    empty = [path.rpartition("/")[2] for path in found[:MOST] if not _populated(host, mount, path)]
    yield Reading(what=GIVES[1], subject="node", value=len(empty), at=at, source=source, text=" ".join(empty[:TOLD]))
    if len(found) > MOST:
        why = f"{len(found) - MOST:,} scopes more than systemd_scopes.MOST were not checked"
        yield Blind(what=GIVES[1], source=source, why=why, subject="node")


def _scopes(host: Host, top: str) -> Iterator[str]:
    """Every scope directly in a slice, or at the top, by its folder."""
    slices = [top]
    for folder in slices:  # it grows during the loop
        if len(slices) > SLICES:
            raise Unreadable(top, f"more than {SLICES:,} slices")
        try:
            names = host.listing(folder)
        except Unreadable:
            if folder == top:
                raise
            continue  # it is gone
        yield from (f"{folder}/{name}" for name in names if _NAME.fullmatch(name))
        slices += [f"{folder}/{name}" for name in names if name.endswith(".slice")]


def _populated(host: Host, mount: CgroupMount, path: str) -> bool:
    """Whether a process is in it, or below. A scope that is gone, or cannot be read, is not called empty."""
    try:
        if mount.version == 2:
            return "populated 0" not in lines(host.read(f"{path}/cgroup.events"))
        if host.read(f"{path}/cgroup.procs"):
            return True
        return any(host.read(f"{path}{below}/cgroup.procs") for below in host.tree(path, most=DEEP))
    except Unreadable:
        return True
