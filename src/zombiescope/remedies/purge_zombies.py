"""Free dead memory cgroups without a reboot: one rung after the other, the least harmful first, while any are left.

The files that pin them are written back and their cached pages forgotten; files in tmpfs are named, for only their
owner can remove them; then the kernel is asked to take pages from the narrowest live cgroup above them, where nobody
lives. The last two rungs take pages from the living: reclaim where processes run, then the whole node's page cache.

Safe: but for the last two rungs only who reads the very files that pin a dead cgroup waits for the disk once.
Does not fix: whatever makes them, so stop that first; those pinned by tmpfs, sockets or memory in use; a residue of
    about a dozen, which is usual.
References: see `zombiescope census --names` for what pins each.
"""

from __future__ import annotations

import sys

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.timeline import Timeline

CURES = ("zombie_cgroups",)
AFTERMATH = True
COMMAND = (sys.executable, "-m", "zombiescope.treatment.purge_command")
RUNGS = (
    ("files", "safe", "forget the cached pages of the files that pin them"),
    ("advice", "safe", "name the files in tmpfs that pin them; nothing is removed"),
    ("reclaim", "safe", "reclaim in the narrowest live cgroup above them, where no process lives"),
    ("reclaim-live", "disruptive", "reclaim there though processes live in it: they lose cached pages too"),
    ("drop-caches", "disruptive", "forget all cached pages of the node: everybody reads from disk again"),
)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    if "memory" not in finding.subject.removeprefix("controller:").split(","):
        return None
    steps = (Step(says=says, argv=(*COMMAND, rung), risk=risk) for rung, risk, says in RUNGS)
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps))
