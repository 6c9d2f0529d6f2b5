"""Times one read of the root statistics files that kubelet reads: this measures the harm itself, not a count.

Overhead: that one read of each file, at most every ten minutes and never again after a slow one; on the core with
    the fewest interrupts of network cards. On kernels older than 5.8 a read may cost 70 µs for each cgroup, dying
    ones included, so it is skipped if it would take more than `BUDGET` seconds.
Kernel: before dd8657b6c1cb ("mm/memcg: optimize memory.numa_stat like memory.stat", in v5.8) reading memory.numa_stat
    walked all descendants; since 2d146aa3aa84 (in v5.13) memory.stat flushes those whose statistics changed, with
    interrupts off, about 2 µs each. The kernel version is checked here because trying the feature would have the
    full cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.mounts import MOUNTINFO, cgroup_mounts
from zombiescope.kernel.timed_read import quietest_core, timed_read

EVERY = 600.0
GIVES = ("stat_read_seconds", "stat_read_cpu_seconds")
BUDGET = 0.5  # seconds that one read may be expected to take
SLOW = 0.1  # seconds: after a read this slow there is no second one
WALK_EACH = 70e-6  # seconds for each cgroup before v5.8, measured by the author of its fix
_FILES = {"memory": ("memory.stat", "memory.numa_stat"), "blkio": ("blkio.throttle.io_service_bytes_recursive",)}
_UNIFIED = ("memory.stat", "memory.numa_stat", "io.stat")


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Remembers slow reads, so that they are not repeated."""
    slow: dict[str, float] = {}

    def look() -> Iterator[Reading | Blind]:
        for item in _read(host, slow):
            if isinstance(item, Reading) and item.what == GIVES[0] and item.value >= SLOW:
                slow[item.source] = item.value
            yield item

    yield look


def read(host: Host) -> Iterator[Reading | Blind]:
    return _read(host, {})


def _read(host: Host, slow: dict[str, float]) -> Iterator[Reading | Blind]:
    paths = _paths(host)
    if not host.live:
        raise Unreadable(paths[0], "can only be timed on a live machine")
    core, walks = quietest_core(host), _walks(host)
    unseen = []
    for path in paths:
        source, subject = shown_by("time", "cat", path), f"file:{path.rpartition('/')[2]}"
        try:
            if source in slow:
                raise Unreadable(path, f"took {slow[source]:.2f} s before, so it is not read again")
            if path.endswith("numa_stat") and walks > BUDGET:
                raise Unreadable(
                    path, f"would take about {walks:.1f} s on this kernel; stat_read.BUDGET allows {BUDGET:g}"
                )
            at = host.now()
            took = timed_read(host.real(path), core)
        except Unreadable as error:
            unseen.append(Blind(what=GIVES[0], source=source, why=error.why, subject=subject))
            continue
        text = f"on core {took.core}"
        yield Reading(what=GIVES[0], subject=subject, value=took.seconds, at=at, source=source, text=text)
        yield Reading(what=GIVES[1], subject=subject, value=took.cpu_seconds, at=at, source=source, text=text)
        if took.seconds >= SLOW:
            return  # one slow read is enough proof
    if len(unseen) == len(paths):
        raise Unreadable(unseen[0].source, unseen[0].why)
    yield from unseen


def _paths(host: Host) -> list[str]:
    """The statistics files of the mounted memory and blkio hierarchies."""
    mounts = cgroup_mounts(host)
    bound = [(mount, files) for mount in mounts for kind, files in _FILES.items() if kind in mount.controllers]
    paths = [f"{mount.path}/{name}" for mount, files in bound for name in files]
    if not any("memory" in mount.controllers for mount in mounts):
        paths += [f"{mount.path}/{name}" for mount in mounts if mount.version == 2 for name in _UNIFIED]
    if not paths:
        raise Unreadable(MOUNTINFO, "no hierarchy with statistics is mounted")
    return paths


def _walks(host: Host) -> float:
    """Seconds that a walk over all memory cgroups would take here; 0 where the kernel does not walk."""
    release = re.match(r"(\d+)\.(\d+)", host.read("/proc/sys/kernel/osrelease"))
    if release and (int(release[1]), int(release[2])) >= (5, 8):
        return 0.0
    known = re.search(r"^memory\t\d+\t(\d{1,9})\t", host.read("/proc/cgroups"), re.MULTILINE)
    return WALK_EACH * int(known[1]) if known else 0.0
