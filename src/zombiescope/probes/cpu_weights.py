"""CPU weights of the upper cgroups, and the CPU time that each used: who gets how much of a full node.

Overhead: two reads for each cgroup of the two upper levels, 20 µs each; at most `MOST` of them. Which there are is
    listed every 20 to 60 s.
Kernel: cpu.weight (v2, 100 by default) and cpu.shares (v1, 1,024 by default), both given as 1.0 by default here; what
    is not in a cgroup, kernel threads among it, weighs 1.0. CPU time is in cpu.stat (v2) and cpuacct.usage (v1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts, tree_of
from zombiescope.kernel.text import counters, only_count
from zombiescope.probes._remembering import remembered

EVERY = 6.0
WEIGHT, USED, COUNT = "cgroup_cpu_weight", "cgroup_cpu_used_seconds_total", "cgroups_weighed"
GIVES = (WEIGHT, USED, COUNT)
MOST = 200  # cgroups, 8 ms a sample: two levels of a node with 110 pods in three classes have fewer
LEVELS = 2  # kubepods and its classes of pods, system.slice and its units: between them a node is shared out
WALKED = 10_000  # live cgroups walked, 30 ms a minute
RENEWED = 60.0  # seconds: a new cgroup is seen a minute later at worst
_V1, _V2 = 1024, 100  # what weighs 1.0


@dataclass(slots=True)
class _Known:
    mount: CgroupMount
    accounts: str  # where cpuacct.usage is, on v1
    paths: list[str]


def _known(host: Host) -> _Known:
    mount, paths = tree_of(host, "cpu", WALKED)
    accounts = next((it.path for it in cgroup_mounts(host) if "cpuacct" in it.controllers), mount.path)
    upper = [path for path in paths if path.count("/") <= LEVELS]
    return _Known(mount, accounts, sorted(upper, key=lambda path: path.count("/")))


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at, told = host.now(), 0
    for path in known.paths[:MOST]:
        subject = f"cgroup:{path}"
        try:
            for what, value, source in _of_one(host, known, path):
                yield Reading(what=what, subject=subject, value=value, at=at, source=source)
            told += 1
        except Unreadable:
            continue  # it is gone, or the controller is not enabled there
        except Unparsable as error:
            yield Blind(what=WEIGHT, source=error.source, why=error.why, subject=subject)
    yield Reading(what=COUNT, subject="node", value=told, at=at, source=shown_by("ls", known.mount.path))


watch, read = remembered(_known, _told, lambda: RENEWED)


def _of_one(host: Host, known: _Known, path: str) -> Iterator[tuple[str, float, str]]:
    folder = known.mount.path + path
    if known.mount.version == 2:
        source, stat = f"{folder}/cpu.weight", f"{folder}/cpu.stat"
        yield WEIGHT, only_count(host.read(source), source) / _V2, source
        yield USED, counters(host.read(stat), stat).get("usage_usec", 0) / 1e6, stat
        return
    source, stat = f"{folder}/cpu.shares", f"{known.accounts}{path}/cpuacct.usage"
    yield WEIGHT, only_count(host.read(source), source) / _V1, source
    yield USED, only_count(host.read(stat), stat) / 1e9, stat
