"""Cgroups with a limit on their threads (pids.max): how often a fork was refused there, and how many run there then.

Overhead: one read for each cgroup with a limit, 15 µs; two more for those that refused since the last sample. Which
    have one is found every 20 to 60 s by a walk over the live cgroups, 20 µs each and at most `WALKED` of them. At most
    `MOST` are read in a sample.
Kernel: kernel/cgroup/pids.c. pids.events counts forks of tasks in this cgroup that its limit, or one above it,
    refused; since 73e75e6fc352 and 385a635cacfe forks in it or below it that its own limit refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import CgroupMount, tree_of
from zombiescope.kernel.text import counters, only_count
from zombiescope.probes._limits import limit_in
from zombiescope.probes._remembering import remembered

EVERY = 6.0
REFUSED, USED, LIMIT = "cgroup_forks_refused_total", "cgroup_threads", "cgroup_threads_limit"
COUNT = "cgroups_with_pids_limit"
GIVES = (REFUSED, USED, LIMIT, COUNT)
MOST = 500  # cgroups with a limit: systemd gives one to each unit, kubelet one to each pod; 8 ms a sample
WALKED = 10_000  # live cgroups walked for limits: 0.2 s a minute
RENEWED = 60.0  # seconds: a new pod's limit is seen a minute later at worst


@dataclass(slots=True)
class _Limited:
    mount: CgroupMount
    limits: dict[str, int]
    refused: dict[str, int] = field(default_factory=dict)  # at the last sample


def _limited(host: Host) -> _Limited:
    mount, paths = tree_of(host, "pids", WALKED)
    limits = {path: limit_in(host, f"{mount.path}{path}/pids.max", parse_limit) for path in paths}
    return _Limited(mount, {path: limit for path, limit in limits.items() if limit is not None})


def _told(host: Host, known: _Limited) -> Iterator[Reading | Blind]:
    at = host.now()
    for path in list(known.limits)[:MOST]:
        folder, subject = known.mount.path + path, f"cgroup:{path}"
        source = f"{folder}/pids.events"
        try:
            refused = counters(host.read(source), source).get("max", 0)
            if known.refused.get(path, 0) != refused:
                used = f"{folder}/pids.current"
                yield Reading(what=USED, subject=subject, value=only_count(host.read(used), used), at=at, source=used)
                limit = f"{folder}/pids.max"
                yield Reading(what=LIMIT, subject=subject, value=known.limits[path], at=at, source=limit)
            known.refused[path] = refused
        except Unreadable:
            continue  # it is gone
        except Unparsable as error:
            yield Blind(what=REFUSED, source=error.source, why=error.why, subject=subject)
            continue
        yield Reading(what=REFUSED, subject=subject, value=refused, at=at, source=source)
    source = shown_by("grep", "-r", ".", known.mount.path, "--include=pids.max")
    yield Reading(what=COUNT, subject="node", value=len(known.limits), at=at, source=source)
    if len(known.limits) > MOST:
        why = f"{len(known.limits) - MOST:,} cgroups more than pids_limits.MOST were not read"
        yield Blind(what=REFUSED, source=known.mount.path, why=why, subject="node")


watch, read = remembered(_limited, _told, lambda: RENEWED)


# max
# 4915
def parse_limit(text: str, source: str = "pids.max") -> int | None:
    return None if text.strip() == "max" else only_count(text, source)
