"""Free dying memory cgroups without a reboot: one step after the other, the least harmful first, while any are left.

The files that pin them are written back and their cached pages dropped; files in tmpfs are named, because only their
owner can remove them; then the kernel reclaims pages from the narrowest live cgroup above them that has no processes.
The last two steps also take pages from running work: reclaim where processes run, then the whole node's page cache.

Safe: without the last two steps, only programs that read the very files that pin a dying cgroup wait for the disk once.
Does not fix: whatever makes them, so stop that first; those pinned by tmpfs, sockets or memory in use; a residue of
    about a dozen, which is normal.
References: see `zombiescope census --names` for what pins each.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.own_python import own_python
from zombiescope.core.timeline import Timeline

CURES = ("zombie_cgroups",)
AFTERMATH = True
COMMAND = own_python("zombiescope.treatment.purge_command")
RUNGS = (
    ("files", "safe", "drop the cached pages of the files that pin them"),
    ("advice", "safe", "name the files in tmpfs that pin them; nothing is removed"),
    ("reclaim", "safe", "reclaim in the narrowest live cgroup above them that has no processes"),
    ("reclaim-live", "disruptive", "reclaim also where processes run: they lose cached pages too"),
    ("drop-caches", "disruptive", "drop the page cache of the whole node: every program reads from disk again"),
)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    if "memory" not in finding.subject.removeprefix("controller:").split(","):
        return None
    steps = (Step(says=says, argv=(*COMMAND, rung), risk=risk) for rung, risk, says in RUNGS)
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps))
