"""The dying memory cgroups by name, from the best source that this machine allows.

The sources, best first: a walk with BPF (names, parents, usage, what pins each), the listing of the multi-generational
LRU (names and pages), and, for those removed from now on, tracepoints. Which one was used and why no better one is
part of the answer: an empty list from a source that could not be read would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.kernel import lru_gen
from zombiescope.kernel.cgroup_events import CgroupEvent
from zombiescope.kernel.lru_drain import drain
from zombiescope.kernel.memcg_walk import MemoryCgroup, walk
from zombiescope.kernel.mounts import cgroup_mounts

PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Zombie:
    """One dying memory cgroup. What the source does not show is None."""

    path: str
    usage_bytes: int | None = None
    pinned_by: str = "unknown"
    references: int | None = None
    parent_alive: bool | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0] or "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The dying cgroups, the source used, and why no better one was."""

    rung: str  # "bpf", "lru_gen", "tracepoints" or "none"
    zombies: list[Zombie]
    refused: tuple[str, ...] = ()  # why each better source was not used
    hidden: dict[str, int] = field(
        default_factory=dict
    )  # bytes of kernel memory charged to a parent itself, by its path
    kernel_seconds: float = 0.0


def named(host: Host, btf: str | None = None) -> Named:
    """Name them all, from the best source available."""
    refused = []
    try:
        drain()
        found = walk(btf=btf)
        dead = [cgroup for cgroup in found.cgroups if cgroup.dead]
        alive = {cgroup.path for cgroup in found.cgroups if not cgroup.dead}
        return Named(
            rung="bpf",
            zombies=[_walked(cgroup, alive) for cgroup in dead],
            hidden=_hidden(found.cgroups),
            kernel_seconds=found.kernel_seconds,
        )
    except (Unreadable, Unparsable) as error:
        refused.append(f"bpf: {error}")
    try:
        return Named(rung="lru_gen", zombies=_listed(host), refused=tuple(refused))
    except (Unreadable, Unparsable) as error:
        refused.append(f"lru_gen: {error}")
    return Named(rung="none", zombies=[], refused=tuple(refused))


def named_by_events(events: Iterable[CgroupEvent], refused: tuple[str, ...]) -> Named:
    """Cgroups that were removed while we watched and are not released yet."""
    dead: dict[int, str] = {}
    for event in events:
        if event.kind == "rmdir":
            dead[event.id] = event.path
        elif event.kind == "release":
            dead.pop(event.id, None)
    return Named(rung="tracepoints", zombies=[Zombie(path=path) for path in dead.values()], refused=refused)


def _walked(cgroup: MemoryCgroup, alive: set[str]) -> Zombie:
    return Zombie(
        path=cgroup.path,
        usage_bytes=cgroup.memory_pages * PAGE,
        pinned_by=cgroup.pinned_by,
        references=cgroup.references,
        parent_alive=(cgroup.path.rpartition("/")[0] or "/") in alive,
    )


def _hidden(cgroups: list[MemoryCgroup]) -> dict[str, int]:
    """What a parent is charged for beyond its children and its own pages: kernel structures of its dying children.

    Since 3e38e0aaca9e ("mm: memcg: charge memcg percpu memory to the parent cgroup", in v5.9) a cgroup's own structures
    are charged to its parent, and silently use up its limit.
    """
    below: dict[int, int] = {}
    parents_of_dead = {cgroup.parent_serial for cgroup in cgroups if cgroup.dead}
    for cgroup in cgroups:
        if cgroup.parent_serial is not None:
            below[cgroup.parent_serial] = below.get(cgroup.parent_serial, 0) + cgroup.memory_pages
    hidden = {}
    for cgroup in cgroups:
        if cgroup.serial in parents_of_dead and cgroup.parent_serial is not None:  # the root is charged for nothing
            own = cgroup.anon_pages + cgroup.file_pages + cgroup.unevictable_pages
            hidden[cgroup.path] = max(cgroup.memory_pages - below.get(cgroup.serial, 0) - own, 0) * PAGE
    return hidden


def _listed(host: Host) -> list[Zombie]:
    """The listed cgroups without a folder. The root always has one."""
    mounts = cgroup_mounts(host)
    memory = [mount for mount in mounts if "memory" in mount.controllers] or [it for it in mounts if it.version == 2]
    living = set(host.tree(memory[0].path)) if memory else set()
    return [
        Zombie(
            path=it.path, usage_bytes=(it.anon_pages + it.file_pages) * PAGE, parent_alive=_parent(it.path) in living
        )
        for it in lru_gen.listed()
        if it.path != "/" and it.path not in living
    ]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
