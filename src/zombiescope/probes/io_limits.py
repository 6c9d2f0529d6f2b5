"""Cgroups with an I/O limit of their own (io.max, blkio.throttle): the limit by disk, and what they did there.

Overhead: one read for each cgroup with a limit, 30 µs. Which have one is found every 20 to 60 s by a walk over the live
    cgroups, one read each (v2) or four (v1), 20 µs, and at most `WALKED` of them; few nodes have any limit at all.
Kernel: Documentation/admin-guide/cgroup-v2.rst, io.max and io.stat; cgroup-v1/blkio-controller.rst. What a limit
    holds back has not reached the disk, so /proc/diskstats does not show that it waits. v1 counts what was let
    through only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import CgroupMount, mount_of
from zombiescope.kernel.text import count, lines
from zombiescope.probes._remembering import remembered

EVERY = 2.0
_KINDS = ("rbps", "wbps", "riops", "wiops")  # as io.max calls them
LIMIT, DONE, COUNT = "cgroup_io_limit", "cgroup_io_total", "cgroups_with_io_limit"
GIVES = (LIMIT, DONE, COUNT)
MOST = 100  # cgroups with a limit, 3 ms a sample
WALKED = 5_000  # live cgroups walked for limits: 0.1 s (v2) or 0.4 s (v1) a minute
RENEWED = 60.0  # seconds: a new limit is seen a minute later at worst
_V1 = dict(zip(_KINDS, ("read_bps", "write_bps", "read_iops", "write_iops"), strict=True))
_STAT = dict(zip(_KINDS, ("rbytes", "wbytes", "rios", "wios"), strict=True))
_Limits = dict[str, dict[tuple[str, str], int]]  # by cgroup: by disk ("8:0") and kind


@dataclass(slots=True)
class _Limited:
    mount: CgroupMount
    limits: _Limits
    disks: dict[str, str]  # their names by number


def _limited(host: Host) -> _Limited:
    try:
        mount = mount_of(host, "blkio")
    except Unreadable:
        mount = mount_of(host, "io")
    host.check_folder(mount.path)
    limits: _Limits = {}
    for path in host.tree(mount.path, most=WALKED):
        found: dict[tuple[str, str], int] = {}
        folder = mount.path + path
        try:
            if mount.version == 2:
                found = parse_max(host.read(f"{folder}/io.max"), f"{folder}/io.max")
            else:
                for kind, name in _V1.items():
                    source = f"{folder}/blkio.throttle.{name}_device"
                    found |= {(disk, kind): most for disk, most in parse_v1(host.read(source), source).items()}
        except Unreadable:
            continue  # it is gone, or the controller is not enabled there
        if found:
            limits[path] = found
    return _Limited(mount, limits, _names(host) if limits else {})


def _names(host: Host) -> dict[str, str]:
    """The disks' names by their numbers; from the file that lists them, no disk is asked."""
    found = {}
    for line in lines(host.read("/proc/diskstats")):
        major, minor, name = [*line.split(), "", "", ""][:3]
        found[f"{major}:{minor}"] = name
    return found


def _told(host: Host, known: _Limited) -> Iterator[Reading | Blind]:
    at, mount = host.now(), known.mount
    for path, limits in list(known.limits.items())[:MOST]:
        folder = mount.path + path
        try:
            done, source = _done(host, folder, mount.version)
        except Unreadable:
            continue  # it is gone
        except Unparsable as error:
            yield Blind(what=DONE, source=error.source, why=error.why, subject=f"cgroup:{path}")
            continue
        for (disk, kind), most in limits.items():
            text = f"{path} {known.disks.get(disk, disk)} {kind}"
            subject = f"iolimit:{path} {disk} {kind}"
            where = f"{folder}/{'io.max' if mount.version == 2 else f'blkio.throttle.{_V1[kind]}_device'}"
            yield Reading(what=LIMIT, subject=subject, value=most, at=at, source=where, text=text)
            yield Reading(what=DONE, subject=subject, value=done.get((disk, kind), 0), at=at, source=source, text=text)
    name = "io.max" if mount.version == 2 else "blkio.throttle.*_device"
    source = shown_by("grep", "-r", ".", mount.path, f"--include={name}")
    yield Reading(what=COUNT, subject="node", value=len(known.limits), at=at, source=source)


watch, read = remembered(_limited, _told, lambda: RENEWED)


def _done(host: Host, folder: str, version: int) -> tuple[dict[tuple[str, str], int], str]:
    if version == 2:
        source = os.path.join(folder, "io.stat")
        return parse_stat(host.read(source), source), source
    found: dict[tuple[str, str], int] = {}
    for name, kinds in (("io_service_bytes", _KINDS[:2]), ("io_serviced", _KINDS[2:])):
        source = f"{folder}/blkio.throttle.{name}"
        found |= parse_serviced(host.read(source), kinds, source)
    return found, f"{folder}/blkio.throttle.io_serviced"


# 8:16 rbps=2097152 wbps=max riops=max wiops=120
def parse_max(text: str, source: str = "io.max") -> dict[tuple[str, str], int]:
    found = {}
    for number, line in enumerate(lines(text), 1):
        disk, *fields = line.split() or [""]
        for kind, _, value in (field.partition("=") for field in fields):
            try:
                if kind in _KINDS and value != "max":
                    found[disk, kind] = count(value)
            except ValueError:
                raise Unparsable(source, number, line) from None
    return found


# 7:0 50
def parse_v1(text: str, source: str) -> dict[str, int]:
    found = {}
    for number, line in enumerate(lines(text), 1):
        disk, _, value = line.partition(" ")
        try:
            found[disk] = count(value.strip())
        except ValueError:
            raise Unparsable(source, number, line) from None
    return found


# 8:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
def parse_stat(text: str, source: str = "io.stat") -> dict[tuple[str, str], int]:
    found = {}
    kinds = {name: kind for kind, name in _STAT.items()}
    for number, line in enumerate(lines(text), 1):
        disk, *fields = line.split() or [""]
        for name, _, value in (field.partition("=") for field in fields):
            try:
                if name in kinds:
                    found[disk, kinds[name]] = count(value)
            except ValueError:
                raise Unparsable(source, number, line) from None
    return found


# 7:0 Read 3
# 7:0 Write 400
# Total 403
def parse_serviced(text: str, kinds: tuple[str, ...], source: str) -> dict[tuple[str, str], int]:
    """`kinds` are those of what was read and of what was written."""
    found = {}
    for number, line in enumerate(lines(text), 1):
        fields = line.split()
        if len(fields) != 3 or fields[1] not in ("Read", "Write"):
            continue
        try:
            found[fields[0], kinds[fields[1] == "Write"]] = count(fields[2])
        except ValueError:
            raise Unparsable(source, number, line) from None
    return found
