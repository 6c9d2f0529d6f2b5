"""cpu.stat of cgroups with a CPU quota: how often and how long they were throttled.

Overhead: one read for each cgroup with a quota, 25 µs. Which have one is found every 20 to 60 s by a walk over the live
    cgroups, 30 µs each and at most `WALKED` of them; dying ones have no folder. At most `MOST` are read in a sample.
    The quota itself is read in the same walk, on v1 with one more read for each.
Kernel: cpu_cfs_stat_show() and cpu_extra_stat_show() in kernel/sched/core.c. v1 has cpu.cfs_quota_us (-1: none) and
    throttled_time in ns; v2 has cpu.max ("max": none) and throttled_usec. Both count periods only while there is a
    quota, and add the time of all cores, so it may grow by more than a second in a second. A cgroup whose quota was
    never in force (nr_periods 0) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import CgroupMount, tree_of
from zombiescope.kernel.text import count, counters, lines
from zombiescope.probes._remembering import remembered

EVERY = 2.0
GIVES = (
    "cgroup_throttled_seconds_total",
    "cgroup_throttled_periods_total",
    "cgroup_periods_total",
    "cgroups_with_quota",
    "cgroup_cpu_quota_cores",
)
CURVES = (("CPU throttling", "share", "cgroup_throttled_seconds_total", "all"),)
MOST = 1_000  # cgroups with a quota, ten times what a full node has: 25 ms a sample
WALKED = 10_000  # live cgroups walked for quotas: 0.3 s a minute
RENEWED = 60.0  # seconds: a new pod's throttling is seen a minute later at worst


class CpuStat(NamedTuple):
    periods: int
    throttled_periods: int
    throttled_seconds: float


def _told(host: Host, known: tuple[CgroupMount, dict[str, float]]) -> Iterator[Reading | Blind]:
    (mount, limited), at = known, host.now()
    for path, cores in list(limited.items())[:MOST]:
        source, subject = f"{mount.path}{path}/cpu.stat", f"cgroup:{path or '/'}"
        try:
            stat = parse(host.read(source), source)
        except Unreadable:
            continue  # it is gone, or a recorded root has only its name
        except Unparsable as error:
            yield from (Blind(what=what, source=source, why=error.why, subject=subject) for what in GIVES[:3])
            continue
        values = (stat.throttled_seconds, stat.throttled_periods, stat.periods)
        for what, value in zip(GIVES, values if stat.periods else (), strict=False):
            yield Reading(what=what, subject=subject, value=value, at=at, source=source)
        source = f"{mount.path}{path}/{_quota_file(mount)}"
        if stat.periods and cores:
            yield Reading(what=GIVES[4], subject=subject, value=cores, at=at, source=source)
        elif stat.periods:
            yield Blind(what=GIVES[4], source=source, why="shows no period", subject=subject)
    source = shown_by("grep", "-rL", "^-1\\|^max", mount.path, f"--include={_quota_file(mount)}")
    yield Reading(what=GIVES[3], subject="node", value=len(limited), at=at, source=source)
    if len(limited) > MOST:
        why = f"{len(limited) - MOST:,} cgroups more than cpu_throttling.MOST were not read"
        yield from (Blind(what=what, source=mount.path, why=why, subject="node") for what in GIVES[:3])


def _limited(host: Host) -> tuple[CgroupMount, dict[str, float]]:
    """The hierarchy of the cpu controller, and which of its cgroups have a quota, of how many cores."""
    mount, paths = tree_of(host, "cpu", WALKED)
    found = {}
    # The mount point itself is read too: inside a container it is the container's own cgroup.
    for path in ("", *paths):
        source = f"{mount.path}{path}/{_quota_file(mount)}"
        try:
            quota = host.read(source)
            if has_quota(quota, source):
                found[path] = cores_of(quota if mount.version == 2 else f"{quota} {_period(host, source)}")
        except Unreadable:
            continue  # it is gone, or the controller is not enabled there
    return mount, found


watch, read = remembered(_limited, _told, lambda: RENEWED)


def _quota_file(mount: CgroupMount) -> str:
    return "cpu.max" if mount.version == 2 else "cpu.cfs_quota_us"


# -1
# 20000
# max 100000
# 20000 100000
def has_quota(text: str, source: str = "cpu.max") -> bool:
    quota = text.split()[:1]
    try:
        return quota not in (["max"], ["-1"]) and count(quota[0]) > 0
    except (ValueError, IndexError):
        raise Unparsable(source, 1, text) from None


def _period(host: Host, source: str) -> str:
    try:
        return host.read(source.replace("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    except Unreadable:
        return ""


# 20000 100000
def cores_of(text: str) -> float:
    """The quota in cores; 0 if the period is not known."""
    try:
        quota, period = map(count, text.split())
    except ValueError:
        return 0.0
    return quota / period if period else 0.0


# v1: nr_periods 5049        v2: usage_usec 5167232
#     nr_throttled 5033          user_usec 5156211
#     throttled_time 453251…     system_usec 11021
#     nr_bursts 0                nr_periods 5049
#     burst_time 0               nr_throttled 5033
#                                throttled_usec 453251177
def parse(text: str, source: str = "cpu.stat") -> CpuStat:
    found = counters(text, source)
    try:
        micros = found["throttled_usec"] if "throttled_usec" in found else found["throttled_time"] / 1e3
        return CpuStat(found["nr_periods"], found["nr_throttled"], micros / 1e6)
    except KeyError:
        raise Unparsable(source, len(lines(text)) or 1, text) from None
