"""Free dying memory cgroups without a reboot: four rungs, the least harmful first.

drop_pinning_files   drops the cached pages of exactly the files that pin them: only readers of these files pay
unlink_advice        changes nothing: says which tmpfs files would have to be removed
reclaim              makes the kernel reclaim in the nearest live cgroup above them: its other children may pay
drop_caches          drops every cached page of the node: everything pays

All count the same way. The dying cgroups of the scope are walked first and known by serial, which the kernel never
reuses, then again until their number stays the same: workers release them some grace periods later. `freed` are those
gone, `left` those still there; cgroups removed since are in neither, so freed + left is what was found at first. 8 to
14 usually remain (metadata held by the journal, charges cached per CPU).
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from zombiescope.core import Host, Unreadable, UserError, amount
from zombiescope.kernel.file_handles import Handles, how_to_unlink, mounts
from zombiescope.kernel.memcg_walk import MemoryCgroup, Pin, Walk, walk
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.kernel.pinning_files import PinningFiles
from zombiescope.treatment.limited_write import write

# A path ("/kubepods" and all below it, "/" for all), or a test for each dying cgroup.
Scope = str | Callable[[MemoryCgroup], bool]
Look = Callable[[], Walk]

DROP_CACHES = "/proc/sys/vm/drop_caches"
_PAGE = os.sysconf("SC_PAGESIZE")
_CALM = 0.6  # seconds without a change: workers need 2 s for 20,000, but release some all the time
_REASONS = 20  # files that are named; a scope may be pinned by thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What a rung did to the dying cgroups of a scope."""

    rung: str
    freed: int
    left: int
    why_left: tuple[str, ...]  # most zombies first
    seconds: float
    evidence: tuple[str, ...]  # what was done, in order


def drop_pinning_files(
    scope: Scope,
    *,
    rounds: int = 8,
    seconds: float = 30,
    files: int = 1000,
    budget: int | None = None,
    look: Look = walk,
) -> Freed:
    """Write back and drop all cached pages of each file on disk that pins a dying cgroup, while it helps.

    Whoever reads such a file next reads it from disk. With a `budget` in bytes no more than that is dropped in all, no
    file that a process writes to (a database, a log in use), and no disk's metadata.

    A zombie shows one pinning page at a time, hence the rounds. The time limit is checked between two files: writing
    one back takes as long as the disk needs. Files seen only by mapped pages are left alone, as those would stay.
    """
    count, done = _Count(scope, look), []
    with Handles() as handles:
        pinning = PinningFiles(handles, files, budget)
        for _ in range(rounds):
            before, known = len(count.dead), pinning.known
            for pin, zombies in _pins(count.dead, "page cache"):
                if not pin.mapped and count.seconds < seconds and (path := pinning.forget(pin)):
                    done.append(f"{path}: written back, cached pages dropped ({zombies} zombies)")
            count.settle()
            if not count.dead or (len(count.dead) == before and pinning.known == known) or count.seconds > seconds:
                break
    return count.freed("drop_pinning_files", _why_left(count.dead, pinning.why), done)


def unlink_advice(scope: Scope, *, look: Look = walk) -> Freed:
    """Which files in tmpfs pin how many: without swap only removing or truncating them helps.

    Measured: 70,000 zombies are released 6.7 s after that. Nothing is removed here: the files may be users' data.
    """
    count, reachable = _Count(scope, look), mounts()
    files = [f"{zombies} by {how_to_unlink(pin, reachable)}" for pin, zombies in _pins(count.dead, "shmem")]
    others = [cgroup for cgroup in count.dead if cgroup.pin is None or cgroup.pin.kind != "shmem"]
    return count.freed("unlink_advice", (*_shortened(files), *_why_left(others, lambda _: "not in tmpfs")), [])


def reclaim(
    scope: Scope,
    *,
    allow_live: bool = False,
    rounds: int = 4,
    seconds: float = 30,
    budget: int | None = None,
    look: Look = walk,
) -> Freed:
    """Reclaim in the nearest live cgroup above each zombie: memory.reclaim of v2, else memory.force_empty of v1.

    Takes pages from everything below that cgroup, so it is refused if processes run there, unless `allow_live`; at the
    root always. If pages cannot be reclaimed force_empty is refused: it would try 16 times, 262 to 330 µs of CPU for
    each zombie there, 18 s for 70,000. Each write ends with the time limit, at the latest one pass later.
    """
    count, done = _Count(scope, look), []
    refused: dict[MemoryCgroup, str] = {}
    above = _live_ancestors(count)
    for _ in range(rounds):
        before, groups = len(count.dead), defaultdict[MemoryCgroup, list[MemoryCgroup]](list)
        for cgroup in count.dead:
            groups[above[cgroup.serial]].append(cgroup)
        # Deepest first: what it frees need not be reclaimed in the wider one.
        for ancestor, zombies in sorted(groups.items(), key=lambda group: -group[0].level):
            if ancestor not in refused and count.seconds < seconds:
                try:
                    done.append(
                        _reclaim_in(Host(), count.found, ancestor, zombies, allow_live, seconds - count.seconds, budget)
                    )
                except Unreadable as no:
                    refused[ancestor] = f"{no.source}: {no.why}"
        if len(refused) < len(groups):
            count.settle()
        if len(count.dead) == before or count.seconds > seconds:
            break
    why = Counter(refused.get(above[it.serial], "reclaim was tried, and did not free it") for it in count.dead)
    return count.freed("reclaim", _shortened([f"{zombies}: {reason}" for reason, zombies in why.most_common()]), done)


def drop_caches(scope: Scope = "/", *, whole_node: bool = False, seconds: float = 60, look: Look = walk) -> Freed:
    """The last resort: write back everything and drop all cached pages of the node.

    `whole_node=True` confirms it; the scope is only what is counted. "1" is enough since v5.4: "3" frees no more
    zombies. If no zombie of the scope can be held by a cached page, nothing is dropped.
    """
    if not whole_node:
        raise UserError("drop_caches drops the page cache of the whole node: confirm with whole_node=True")
    count, done = _Count(scope, look), []
    if any(cgroup.pin is None or cgroup.pin.kind == "page cache" for cgroup in count.dead):
        done.append(write(DROP_CACHES, "1", seconds, sync=True))
        count.settle()
    return count.freed("drop_caches", _why_left(count.dead, lambda _: "in use, or not in the page cache"), done)


class _Count:
    """The dying cgroups of a scope, followed from the first walk on."""

    def __init__(self, scope: Scope, look: Look) -> None:
        self._look, self._started = look, time.monotonic()
        chosen = chooser(scope)
        self.found = look()
        self.dead = [cgroup for cgroup in self.found.cgroups if cgroup.dead and chosen(cgroup)]
        self._first = {cgroup.serial for cgroup in self.dead}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def settle(self) -> None:
        changed = time.monotonic()
        while self.dead and time.monotonic() - changed < _CALM:
            time.sleep(0.1)
            before = len(self.dead)
            self.found = self._look()
            self.dead = [cgroup for cgroup in self.found.cgroups if cgroup.dead and cgroup.serial in self._first]
            if len(self.dead) < before:
                changed = time.monotonic()

    def freed(self, rung: str, why_left: tuple[str, ...], evidence: list[str]) -> Freed:
        count = {"freed": len(self._first) - len(self.dead), "left": len(self.dead)}
        return Freed(rung=rung, **count, why_left=why_left, seconds=self.seconds, evidence=tuple(evidence))


def chooser(scope: Scope) -> Callable[[MemoryCgroup], bool]:
    """Whether a cgroup is in the scope."""
    if not isinstance(scope, str):
        return scope
    if not scope.startswith("/"):
        raise UserError(f"{scope!r} is not a scope: give a cgroup path that begins with /")
    top = scope.rstrip("/")
    return lambda cgroup: cgroup.path == top or cgroup.path.startswith(f"{top}/")


# Equal pins are one file, or the same file mapped more or less often. Most zombies first.
def _pins(dead: list[MemoryCgroup], kind: str) -> list[tuple[Pin, int]]:
    return Counter(it.pin for it in dead if it.pin is not None and it.pin.kind == kind).most_common()


def _why_left(dead: list[MemoryCgroup], why: Callable[[Pin], str]) -> tuple[str, ...]:
    reasons = Counter(f"{it.pinned_by}: {why(it.pin)}" if it.pin is not None else it.pinned_by for it in dead)
    return _shortened([f"{zombies} by {reason}" for reason, zombies in reasons.most_common()])


def _shortened(reasons: list[str]) -> tuple[str, ...]:
    more = len(reasons) - _REASONS
    return (*reasons[:_REASONS], *([f"and {more} more reasons like these"] if more > 0 else []))


# A zombie's parent may be one itself.
def _live_ancestors(count: _Count) -> dict[int, MemoryCgroup]:
    by_serial: dict[int | None, MemoryCgroup] = {cgroup.serial: cgroup for cgroup in count.found.cgroups}
    above = {}
    for cgroup in count.dead:
        at = cgroup
        while at.dead and at.parent_serial in by_serial:
            at = by_serial[at.parent_serial]
        above[cgroup.serial] = at
    return above


def _reclaim_in(
    host: Host,
    found: Walk,
    top: MemoryCgroup,
    zombies: list[MemoryCgroup],
    allow_live: bool,
    seconds: float,
    budget: int | None,
) -> str:
    folder = _folder(host, found.version, top)
    inside, below = {top.serial}, [top]
    for cgroup in found.cgroups:  # parents come first
        if cgroup.parent_serial in inside:
            inside.add(cgroup.serial)
            below.append(cgroup)
    if not allow_live:
        _refuse_processes(found.version, folder, top, [it for it in below if not it.dead])
    cached = sum(it.file_pages for it in (below if found.version == 1 else zombies)) * _PAGE
    if budget is not None and cached > budget:
        raise Unreadable(folder, f"{amount(cached)} of cache would go, more than {amount(budget)}: disruptive")
    swap = _free_swap(host)
    if found.version == 1:
        _refuse_unreclaimable(folder, [it for it in below if it.dead], swap)
    # No more than the zombies hold: the rest would be taken from live cgroups.
    wanted = sum(it.file_pages for it in zombies) * _PAGE + min(sum(it.anon_pages for it in zombies) * _PAGE, swap)
    if not wanted:
        raise Unreadable(folder, "no zombie there has pages that could be reclaimed")
    # Dirty pages survive reclaim (1,307 of 1,500 zombies stayed until they were written back).
    with Handles() as handles:
        for pin, _ in _pins(zombies, "page cache")[:1000]:
            handles.write_back(pin)
    file, text = ("memory.force_empty", "0") if found.version == 1 else ("memory.reclaim", f"{wanted}")
    return write(f"{folder}/{file}", text, seconds)


# The walk gives the inode of a cgroup's folder, so nothing is ever written to another one of the same name.
def _folder(host: Host, version: int, cgroup: MemoryCgroup) -> str:
    if cgroup.parent_serial is None:
        raise Unreadable("the root cgroup", "reclaim there would hit the whole node")
    for mount in cgroup_mounts(host):
        if mount.version == version and (version == 2 or "memory" in mount.controllers):
            folder = mount.path + cgroup.path.removeprefix(mount.root.rstrip("/"))
            with suppress(OSError):
                if os.stat(folder).st_ino == cgroup.inode:
                    return folder
    raise Unreadable(cgroup.path, "its folder is not visible here: another cgroup namespace, or not mounted")


def _refuse_processes(version: int, folder: str, ancestor: MemoryCgroup, live: list[MemoryCgroup]) -> None:
    if version == 2:
        populated = "populated 1" in Host().read(f"{folder}/cgroup.events")  # it, or any below
    else:
        files = (f"{folder}{it.path.removeprefix(ancestor.path)}/cgroup.procs" for it in live)
        populated = any(Host().read(file) for file in files if os.path.exists(file))
    if populated:
        raise Unreadable(folder, "processes run there and would lose cached pages too: allowed only with allow_live")


def _refuse_unreclaimable(folder: str, dead: list[MemoryCgroup], swap: int) -> None:
    locked, swappable = sum(it.unevictable_pages for it in dead), sum(it.anon_pages for it in dead)
    if locked or swappable * _PAGE > swap:
        why = f"{locked} locked pages, {swappable} pages in tmpfs or anonymous memory, free swap for {swap // _PAGE}"
        raise Unreadable(folder, f"cannot be emptied ({why}), and trying costs 0.3 ms per zombie")
    # Since bef8620cd8e0 (v5.11) it is always 1; before, with 0, children are not touched.
    if Host().read(f"{folder}/memory.use_hierarchy").strip() == "0":
        raise Unreadable(folder, "memory.use_hierarchy is 0: its children would not be emptied")


# SwapFree:              0 kB
def _free_swap(host: Host) -> int:
    lines = host.read("/proc/meminfo").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("SwapFree:")), 0)
