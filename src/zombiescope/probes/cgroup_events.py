"""Creations, removals and releases of memory cgroups while we watch, counted by family of names.

Removals less releases are those that are still held. So only releases of cgroups that we saw being removed count: one
that was dying before, and is freed now, would hide one that stays.

Overhead: none while nothing happens, 11 µs an event (tracepoints in a private ring buffer). Where that is not
    allowed, the names in the tree are compared between samples: one stat for each live cgroup; what is created and
    removed between two samples is missed.
Kernel: include/trace/events/cgroup.h, since v4.13; see kernel/cgroup_events.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.cgroups.families import Families
from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.witness import Witness
from zombiescope.kernel.cgroup_events import SOURCE, CgroupEvent, CgroupEvents, memory_hierarchy, watching
from zombiescope.kernel.mounts import CgroupMount, mount_of, whole

EVERY = 2.0
WITNESS = Witness.KERNEL
GIVES = ("cgroup_births_total", "cgroup_removals_total", "cgroup_releases_total")
MOST = 200  # families counted separately: many names that no rule groups must not fill our memory
REMEMBERED = 2_000  # paths, 0.3 KB each
MOST_DYING = 10_000  # removed and not released yet, 0.1 KB each; beyond them every release counts
_WHATS = {"mkdir": GIVES[0], "rmdir": GIVES[1], "release": GIVES[2]}
_OTHERS = "family:others"
Look = Callable[[], Iterator[Reading | Blind]]


class _Counts:
    """Totals by kind and family, since the start."""

    def __init__(self) -> None:
        self._totals: Counter[tuple[str, str]] = Counter()
        self._families: set[str] = set()
        self._examples: dict[tuple[str, str], str] = {}
        self._learnt = Families()
        self._met: dict[str, str] = {}  # paths, and the family of each: what is created is soon removed and released

    def add(self, what: str, path: str, times: int = 1) -> None:
        subject = self._met.get(path) or self._of(path)
        if subject not in self._families and "*" in subject:
            self._gather()
        if subject not in self._families and len(self._families) >= MOST:
            subject = _OTHERS
        self._families.add(subject)
        self._totals[what, subject] += times
        self._examples[what, subject] = path

    def _of(self, path: str) -> str:
        subject = f"family:{self._learnt.of(path)}"
        if len(self._met) >= REMEMBERED:
            self._met.clear()
        self._met[path] = subject
        return subject

    def _gather(self) -> None:
        """A family that was just learnt takes over the counts of those that were met before."""
        self._met.clear()
        for (what, before), example in list(self._examples.items()):
            subject = f"family:{self._learnt.of(example)}"
            if subject != before and "*" in subject and before != _OTHERS:
                self._totals[what, subject] += self._totals.pop((what, before))
                self._examples[what, subject] = self._examples.pop((what, before))
                self._families.discard(before)
                self._families.add(subject)

    def readings(self, at: float, source: str) -> Iterator[Reading]:
        for (what, subject), total in self._totals.items():
            text = self._examples[what, subject]
            yield Reading(what=what, subject=subject, value=total, at=at, source=source, text=text)


class _Dying:
    """Cgroups that were removed while we watched and are not released yet."""

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._all = True

    def counts(self, event: CgroupEvent) -> bool:
        """Whether an event counts: of releases, those of cgroups that were removed while we watched."""
        if event.kind == "release":
            known = event.id in self._ids
            self._ids.discard(event.id)
            return known or not self._all
        if event.kind == "rmdir":
            self._all = self._all and len(self._ids) < MOST_DYING
            if self._all:
                self._ids.add(event.id)
        return True


@contextmanager
def watch(host: Host) -> Iterator[Look]:
    with ExitStack() as stack:
        mount = _memory_mount(host)
        try:
            yield _from_events(host, stack.enter_context(watching(memory_hierarchy(host), host)))
        except Unreadable as refused:
            yield _from_names(host, mount, refused.why)


def read(host: Host) -> Iterator[Reading]:
    """One sample of existing folders shows no creation and no removal."""
    mount = _memory_mount(host)
    raise Unreadable(mount.path, "creations and removals are seen by watching, not by one sample")
    yield  # a generator, like every probe


def _from_events(host: Host, events: CgroupEvents) -> Look:
    counts, dying = _Counts(), _Dying()

    def look() -> Iterator[Reading | Blind]:
        for event in events.read():
            if dying.counts(event):
                counts.add(_WHATS[event.kind], event.path)
        yield from counts.readings(host.now(), SOURCE)
        if lost := events.lost:
            yield Blind(
                what=GIVES[0], source=SOURCE, why=f"{lost} events were lost: they came too fast", subject="node"
            )

    return look


def _from_names(host: Host, mount: CgroupMount, refused: str) -> Look:
    counts = _Counts()
    source = shown_by("find", mount.path, "-type", "d")
    before: dict[str, int] | None = None

    def look() -> Iterator[Reading | Blind]:
        nonlocal before
        now = host.tree(mount.path)
        if before is not None:
            # The same name with another inode was removed and created again: a unit that restarts.
            born = [path for path, inode in now.items() if before.get(path) != inode]
            gone = [path for path, inode in before.items() if now.get(path) != inode]
            for what, paths in ((GIVES[0], born), (GIVES[1], gone)):
                for path in paths:
                    counts.add(what, path)
        before = now
        yield from counts.readings(host.now(), source)
        yield Blind(what=GIVES[2], source=SOURCE, why=refused)

    return look


def _memory_mount(host: Host) -> CgroupMount:
    mount = mount_of(host, "memory")
    if not whole(host, mount):
        raise Unreadable(mount.path, "only a part of the hierarchy is visible from this container")
    return mount
