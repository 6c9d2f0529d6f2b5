"""Run a kernel in which what was found cannot happen, with the version that mends it.

Only changes that fit what was found on this very kernel are named; of what a newer kernel brings besides, nothing.

Safe: nothing is done from here; a new kernel means a reboot (see drain_and_reboot).
Does not fix: whatever makes cgroups again and again: on every kernel a live one costs something. Distributions carry
    changes back without a new version, Red Hat's most of all: where the figures stay small, the change may be there.
References: kernel commits 42a300353577 (in v5.2), dd8657b6c1cb (in v5.8), 2d146aa3aa84 (in v5.13).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

CURES = ("zombie_cgroups", "slow_stat_read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the kernel that ends one kind of harm."""

    version: tuple[int, int]  # the first with it
    fits: Callable[[Finding], bool]
    says: str
    since: tuple[int, int] = (0, 0)  # the first version with the harm


def _reads(file: str) -> Callable[[Finding], bool]:
    return lambda finding: finding.sign == "slow_stat_read" and finding.subject == f"file:{file}"


def _dead(*controllers: str) -> Callable[[Finding], bool]:
    return lambda finding: (
        finding.sign == "zombie_cgroups"
        and bool({*controllers} & {*finding.subject.removeprefix("controller:").split(",")})
    )


def _walks(finding: Finding) -> bool:
    """With many dead that read is not even tried, for it would hold a core for seconds."""
    return _reads("memory.numa_stat")(finding) or _dead("memory")(finding)


CHANGES = (
    Change(
        version=(5, 2),
        fits=_reads("memory.stat"),
        says="a read of memory.stat no longer visits every cgroup below, dead ones too (42a300353577)",
    ),
    Change(
        version=(5, 8),
        fits=_walks,
        says="a read of the root's memory.numa_stat no longer takes 70 µs for each cgroup, live or dead (dd8657b6c1cb)",
    ),
    Change(
        version=(5, 13),
        fits=_reads("memory.stat"),
        says="statistics are summed up as they change, so a read visits only what has changed (2d146aa3aa84)",
    ),
    Change(
        since=(5, 19),
        version=(6, 0),
        fits=_dead("blkio", "io"),
        says="dead blkio cgroups no longer pile up, as they did with 5.19",
    ),
    Change(
        version=(7, 1),
        fits=_dead("memory"),
        says="cached pages of a dead cgroup go to its parent and no longer keep it; what else pins it still does",
    ),
)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    told = re.match(r"(\d{1,4})\.(\d{1,4})", case.kernel)
    if told is None:
        return None
    runs = (int(told[1]), int(told[2]))
    helps = [it for it in CHANGES if it.since <= runs < it.version and it.fits(finding)]
    if not helps:
        return None
    steps = tuple(
        Step(says=f"this is {harmless(case.kernel)}; from Linux {it.version[0]}.{it.version[1]} on {it.says}")
        for it in helps
    )
    return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=steps)
