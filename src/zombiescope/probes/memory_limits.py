"""Memory cgroups with a limit: how often they hit it, how full they are, and how long their tasks waited for memory.

Reclaim at a cgroup's own limit does not show in /proc/vmstat, so a node can look idle while a container starves.

Overhead: one read (v1) or two (v2) for each cgroup with a limit, 30 µs each; two or three more for those that hit
    it since the last sample. Which have one is found every 20 to 60 s by a walk over the live cgroups, 25 µs each and
    at most `WALKED` of them; dying ones have no folder. At most `MOST` are read in a sample. memory.stat is never read:
    it makes the kernel flush the statistics of the whole subtree.
Kernel: mm/memcontrol.c and mm/memcontrol-v1.c. v1 counts hits in memory.failcnt and OOM kills in memory.oom_control
    (oom_kill, on newer kernels). v2 has both in memory.events, which counts children too; hits are read from
    memory.events.local where it exists. Waiting by cgroup (PSI) and dying cgroups below a cgroup are in v2 only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import CgroupMount, tree_of
from zombiescope.kernel.text import count, counters, lines, only_count
from zombiescope.probes._limits import limit_in
from zombiescope.probes._remembering import remembered

EVERY = 6.0
HITS, STALL = "cgroup_limit_hits_total", "cgroup_memory_stall_seconds_total"
USAGE, LIMIT = "cgroup_memory_usage_bytes", "cgroup_memory_limit_bytes"
KILLS, DEAD = "cgroup_oom_kills_total", "cgroup_dead_below"
GIVES = (HITS, STALL, USAGE, LIMIT, KILLS, DEAD, "cgroups_with_memory_limit")
MOST = 500  # cgroups with a limit, more than a full node of 110 pods has: 15 ms a sample
WALKED = 10_000  # live cgroups walked for limits: 0.25 s a minute
RENEWED = 60.0  # seconds: a new pod's limit is seen a minute later at worst
_NO_LIMIT = 1 << 62  # v1 writes "none" as the largest number of whole pages, which depends on the size of a page


@dataclass(slots=True)
class _Limited:
    """The hierarchy, the limit of each cgroup that has one, and how often each had hit it by the last sample."""

    mount: CgroupMount
    limits: dict[str, tuple[int, str]]  # path: bytes, and the file that says so
    hits: dict[str, int] = field(default_factory=dict)


def _told(host: Host, known: _Limited) -> Iterator[Reading | Blind]:
    at, mount, stalls = host.now(), known.mount, 0
    for path in list(known.limits)[:MOST]:
        try:
            for reading in _of_one(host, known, path, at):
                stalls += reading.what == STALL
                yield reading
        except Unreadable:
            continue  # it is gone, or a recorded root has only its name
        except Unparsable as error:
            subject = f"cgroup:{path or '/'}"
            yield from (Blind(what=it, source=error.source, why=error.why, subject=subject) for it in GIVES[:-1])
    name = "memory.max" if mount.version == 2 else "memory.limit_in_bytes"
    source = shown_by("grep", "-r", ".", mount.path, f"--include={name}")
    yield Reading(what=GIVES[-1], subject="node", value=len(known.limits), at=at, source=source)
    if mount.version == 1:
        yield Blind(what=STALL, source=mount.path, why="cgroup v1 does not show how long tasks wait for memory")
        yield Blind(what=DEAD, source=mount.path, why="cgroup v1 does not show the parents of dying cgroups")
    elif known.limits and not stalls:
        yield Blind(
            what=STALL, source=f"{mount.path}/*/memory.pressure", why="operation not supported: no cgroup has one"
        )
    if len(known.limits) > MOST:
        why = f"{len(known.limits) - MOST:,} cgroups more than memory_limits.MOST were not read"
        yield from (Blind(what=what, source=mount.path, why=why, subject="node") for what in GIVES[:-1])


def _of_one(host: Host, known: _Limited, path: str, at: float) -> Iterator[Reading]:
    """The hits always; the rest only after new hits, since it does not change without."""
    folder, subject = known.mount.path + path, f"cgroup:{path or '/'}"

    def told(what: str, value: float, source: str) -> Reading:
        return Reading(what=what, subject=subject, value=value, at=at, source=source)

    hits, source = (_hits_v2 if known.mount.version == 2 else _hits_v1)(host, folder)
    yield told(HITS, hits, source)
    if known.mount.version == 2:
        source = f"{folder}/memory.pressure"
        with suppress(Unreadable):  # booted with psi=0, or switched off for this cgroup
            yield told(STALL, parse_waiting(host.read(source), source), source)
    if known.hits.get(path) == hits:
        return
    known.hits[path] = hits
    yield told(LIMIT, *known.limits[path])
    source = f"{folder}/memory.{'current' if known.mount.version == 2 else 'usage_in_bytes'}"
    yield told(USAGE, only_count(host.read(source), source), source)
    source = f"{folder}/memory.{'events' if known.mount.version == 2 else 'oom_control'}"
    kills = counters(host.read(source), source).get("oom_kill")
    if kills is not None:
        yield told(KILLS, kills, source)
    if known.mount.version == 2:
        source = f"{folder}/cgroup.stat"
        dead = counters(host.read(source), source).get("nr_dying_descendants")
        if dead is not None:
            yield told(DEAD, dead, source)


def _hits_v1(host: Host, folder: str) -> tuple[int, str]:
    source = f"{folder}/memory.failcnt"
    return only_count(host.read(source), source), source


def _hits_v2(host: Host, folder: str) -> tuple[int, str]:
    source = f"{folder}/memory.events.local"
    try:
        text = host.read(source)
    except Unreadable:
        source = f"{folder}/memory.events"
        text = host.read(source)
    return parse_hits(text, source), source


def _limited(host: Host) -> _Limited:
    """The hierarchy of the memory controller, and which of its cgroups have a limit."""
    mount, paths = tree_of(host, "memory", WALKED)
    names = ("memory.max", "memory.high") if mount.version == 2 else ("memory.limit_in_bytes",)
    limits = {}
    # The mount point itself is read too: inside a container it is the container's own cgroup.
    for path in ("", *paths):
        files = [f"{mount.path}{path}/{name}" for name in names]
        found = [(limit, it) for it in files if (limit := limit_in(host, it, parse_limit)) is not None]
        if found:
            limits[path] = min(found)
    return _Limited(mount, limits)


watch, read = remembered(_limited, _told, lambda: RENEWED)


# 9223372036854771712
# max
# 67108864
def parse_limit(text: str, source: str = "memory.max") -> int | None:
    if text.strip() == "max":
        return None
    limit = only_count(text, source)
    return limit if limit < _NO_LIMIT else None


# low 0
# high 17
# max 4062
# oom 0
# oom_kill 0
def parse_hits(text: str, source: str = "memory.events") -> int:
    found = counters(text, source)
    if "max" not in found:
        raise Unparsable(source, len(lines(text)) or 1, text)
    return found["max"] + found.get("high", 0)


# some avg10=0.18 avg60=0.34 avg300=0.10 total=159886802
# full avg10=0.18 avg60=0.34 avg300=0.10 total=159229614
def parse_waiting(text: str, source: str = "memory.pressure") -> float:
    """Seconds in which some task waited."""
    row = (lines(text) or [""])[0]
    try:
        if not row.startswith("some "):
            raise ValueError
        return count(row.rpartition("total=")[2]) / 1e6
    except ValueError:
        raise Unparsable(source, 1, row) from None
