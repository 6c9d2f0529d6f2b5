"""What a guest is to make, what it must then see, and whether it did."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

# Since then a dying memory cgroup gives its pages to its parent, so a page pins none any more.
PAGES_GO_TO_PARENT = (7, 1)
# So many may be on their way out when the walk comes by, where pages pin none.
STRAGGLERS = 12

DISK = "/third"  # where the guest mounts a file system with real page cache, if its kernel can
PAGE_CACHE, SHMEM = "page cache", "shmem"  # our words for the kinds of pages

_ODD = ["n" * 255, "\udcff\udcfe not \udcc3( utf-8", "\x1b[31mred\x1b[0m", " $(id) '\" ", "\u202etxt", "tab\there"]


@dataclass(frozen=True, slots=True)
class Leak:
    """Dead cgroups below one parent, each pinned by a page of one file, or by a socket where there is no file."""

    parent: str
    file: str
    kind: str  # of the pages, in our words
    names: tuple[str, ...]

    @property
    def pinned_by(self) -> str:
        file = PurePosixPath(self.file)
        return f"{self.kind}: {file.parent.name}/{file.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One boot: the hierarchy that has the memory controller, and what to leak there."""

    hierarchy: int
    leaks: tuple[Leak, ...]
    mounts: dict[str, str]

    @property
    def live(self) -> set[str]:
        """Every cgroup that is alive when all is made."""
        parents = {str(above) for leak in self.leaks for above in PurePosixPath(leak.parent).parents}
        return parents | {leak.parent for leak in self.leaks}


@dataclass(slots=True)
class Verdict:
    """What is wrong, in words; nothing if all is right."""

    expected: int
    named: int = 0
    wrong: int = 0
    says: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def blame(self, count: int, words: str) -> None:
        self.wrong += count
        if count:
            self.says.append(f"{count} {words}")


def plan(hierarchy: int, *, disk: bool) -> Plan:
    """400 dead by pages of three files on three file systems; on version 2 also some by sockets."""
    leaks = [
        Leak("/batch.slice", "/first/pages", SHMEM, (*_ODD, *(f"job-{n}" for n in range(154)))),
        Leak("/system.slice/cron.service", "/second/logs/cron.log", SHMEM, tuple(f"run-{n}" for n in range(120))),
        Leak(
            "/kubepods/burstable/pod7",
            f"{DISK}/lib/data.so",
            PAGE_CACHE if disk else SHMEM,
            tuple(f"{n:064x}" for n in range(120)),
        ),
    ]
    if hierarchy == 2:  # version 1 ties sockets to a cgroup only where a limit for them is set
        leaks.append(Leak("/sockets.slice", "", "", tuple(f"listener-{n}" for n in range(24))))
    mounts = {"/first": "tmpfs", "/second": "tmpfs", DISK: "ext4" if disk else "tmpfs"}
    return Plan(hierarchy, tuple(leaks), mounts)


def judge(plan: Plan, seen: dict[str, Any]) -> Verdict:
    """Compare what the guest saw with the plan: every name once, at its place, with the file that pins it."""
    release = tuple(map(int, re.findall(r"\d+", seen["release"])[:2]))
    cured = release >= PAGES_GO_TO_PARENT
    wanted = {f"{leak.parent}/{name}": leak for leak in plan.leaks for name in leak.names}
    surely = {path for path, leak in wanted.items() if not (cured and leak.file)}
    verdict = Verdict(expected=len(surely))
    if "error" in seen:
        verdict.blame(1, f"error in the guest:\n{seen['error']}")
        return verdict
    for walked in seen["walks"]:
        _judge_walk(plan, walked, wanted, surely, verdict)
    told, counted = seen["census"], seen["counted"]
    dying = told.get("controllers", {}).get("memory", {}).get("dying")
    if dying not in counted:
        verdict.blame(1, f"census: {told.get('error') or told}, but the kernel counts {counted}")
    if told.get("hierarchy") != f"v{plan.hierarchy}":
        verdict.blame(1, f"census: hierarchy {told.get('hierarchy')}, but it is v{plan.hierarchy}")
    if cured:
        verdict.remarks.append("pages pin none here, as expected since 7.1; sockets do")
    return verdict


def _judge_walk(
    plan: Plan, walked: dict[str, Any], wanted: dict[str, Leak], surely: set[str], verdict: Verdict
) -> None:
    lists = "multi-generation lists" if walked["generations"] else "classic lists"
    met = Counter(path for path, _name, _pin in walked["dead"])
    verdict.named = len(met)
    verdict.blame(len(surely - set(met)), f"not named, such as {_such(surely - set(met))} ({lists})")
    verdict.blame(len(set(met) - set(wanted)), f"never made, such as {_such(set(met) - set(wanted))} ({lists})")
    verdict.blame(sum(count - 1 for count in met.values()), f"named more than once ({lists})")
    strays = len(set(met) - surely)
    verdict.blame(max(0, strays - STRAGGLERS), f"of {strays} dead that nothing should pin ({lists})")
    misnamed = [path for path, name, _pin in walked["dead"] if not path.endswith(f"/{name}")]
    verdict.blame(len(misnamed), f"with a name that is not the end of the path ({lists})")
    pins = {path: pin for path, _name, pin in walked["dead"] if path in surely and wanted[path].file}
    astray = {path for path, pin in pins.items() if pin != wanted[path].pinned_by}
    if astray:
        path = min(astray)
        told = f"{pins[path]!r}, not {wanted[path].pinned_by!r}"
        verdict.blame(len(astray), f"pinned by another file than told, such as {path}: {told} ({lists})")
    if len(walked["dead"]) != walked["counted"]:
        verdict.blame(1, f"walk: {len(walked['dead'])} dead, but the kernel counts {walked['counted']} ({lists})")
    if set(walked["live"]) != plan.live or len(walked["live"]) != len(plan.live):
        verdict.blame(1, f"walk: alive are {sorted(walked['live'])}, not {sorted(plan.live)} ({lists})")
    if walked["version"] != plan.hierarchy:
        verdict.blame(1, f"walk: version {walked['version']} ({lists})")


def _such(paths: set[str]) -> str:
    return ascii(min(paths, default=""))
