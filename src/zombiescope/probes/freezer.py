"""Cgroups that are frozen: none of their processes runs until they are thawed.

Overhead: one read for each live cgroup, 15 µs; at most `MOST` of them in a sample, in turns. The tree is walked
    every 20 to 60 s, 3 µs a folder and at most `WALKED` of them.
Kernel: cgroup v1 has freezer.state in the freezer hierarchy, v2 has `frozen` in cgroup.events since 76f969e8948d (in
    v5.2). A cgroup below a frozen one is frozen too; only the topmost is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts
from zombiescope.kernel.text import counters
from zombiescope.probes._remembering import Look, remembering

EVERY = 6.0
WITNESS = Witness.KERNEL
FROZEN, COUNT = "cgroup_frozen", "cgroups_frozen"
GIVES = (FROZEN, COUNT)
MOST = 500  # cgroups in a sample, 8 ms: a full node of 110 pods is done in one
WALKED = 10_000  # live cgroups, 30 ms a minute
RENEWED = 60.0  # seconds: a new cgroup is seen a minute later at worst
_STATES = ("FROZEN", "FREEZING")


@dataclass(slots=True)
class _Known:
    """The hierarchies with a freezer, and their cgroups."""

    cgroups: list[tuple[CgroupMount, str]]
    frozen: set[str]  # by subject, as last read
    turn: int = 0


def watch(host: Host) -> AbstractContextManager[Look]:
    """Keeps the list of cgroups, and which were frozen."""
    frozen: set[str] = set()
    return remembering(lambda: _known(host, frozen), lambda known: _told(host, known), RENEWED)


def read(host: Host) -> Iterator[Reading | Blind]:
    return _told(host, _known(host, set()))


def _known(host: Host, frozen: set[str]) -> _Known:
    mounts = [it for it in cgroup_mounts(host) if it.version == 2 or "freezer" in it.controllers]
    if not mounts:
        raise Unreadable("/proc/self/mountinfo", "no hierarchy with a freezer is mounted")
    found: list[tuple[CgroupMount, str]] = []
    for mount in mounts:
        host.check_folder(mount.path)
        found += [(mount, path) for path in host.tree(mount.path, most=WALKED)]
    gone = frozen - {f"cgroup:{path}" for _, path in found}
    frozen -= gone
    return _Known(found, frozen)


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at, many = host.now(), len(known.cgroups)
    now = [known.cgroups[(known.turn + it) % many] for it in range(min(MOST, many))]
    known.turn = (known.turn + len(now)) % max(many, 1)
    for mount, path in now:
        source = f"{mount.path}{path}/{'cgroup.events' if mount.version == 2 else 'freezer.state'}"
        subject = f"cgroup:{path}"
        try:
            frozen = is_frozen(host.read(source), source, mount.version)
        except Unreadable:
            continue  # it is gone, or an older v2 without a freezer
        except Unparsable as error:
            yield Blind(what=FROZEN, source=source, why=error.why, subject=subject)
            continue
        above = any(path.startswith(f"{it.removeprefix('cgroup:')}/") for it in known.frozen)
        if frozen and not above:
            known.frozen.add(subject)
            yield Reading(what=FROZEN, subject=subject, value=1, at=at, source=source)
        elif subject in known.frozen and not frozen:
            known.frozen.discard(subject)
            yield Reading(what=FROZEN, subject=subject, value=0, at=at, source=source)
    source = "$ grep -r FROZEN /sys/fs/cgroup --include=freezer.state"
    yield Reading(what=COUNT, subject="node", value=len(known.frozen), at=at, source=source)


# populated 1
# frozen 0
def is_frozen(text: str, source: str, version: int) -> bool:
    if version == 1:
        state = text.strip()
        if state not in (*_STATES, "THAWED"):
            raise Unparsable(source, 1, text)
        return state in _STATES
    return counters(text, source).get("frozen", 0) == 1
