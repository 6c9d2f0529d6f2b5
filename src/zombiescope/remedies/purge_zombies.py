"""Free dying memory cgroups without a reboot: one step after the other, the least harmful first, while any are left.

The files that pin them are written back, and all their cached pages dropped; files in tmpfs are named, because only
their owner can remove them; then the kernel reclaims pages from the narrowest live cgroup above them that has no
processes. Up to there no more than 1 GB or 1 % of memory is dropped, whichever is less, no file that a process has open
for writing (a database, a log in use), and no disk's metadata. The last three steps take these too, then pages of
running work, then the whole node's page cache; each is marked as disruptive.

Part of a fix only where an effect of the dying cgroups was found; otherwise it has to be asked for by name.

Safe: without the last three steps, programs that read the dropped files wait for the disk once; writing them back takes
    as long as the disk needs.
Does not fix: whatever makes them, so stop that first; those pinned by tmpfs, sockets or memory in use; a residue of
    about a dozen, which is normal.
References: see `zombiescope census --names` for what pins each.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.forms import Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.places.own_python import own_python

CURES = ("zombie_cgroups",)
RESTS_ON = {
    "cgroups_known": Witness.KERNEL,
    "cgroup_folders": Witness.KERNEL,
    "cgroup_dying_descendants": Witness.KERNEL,
    "cgroup_dying_subsys": Witness.KERNEL,
}
AFTERMATH = True
COMMAND = own_python("zombiescope.treatment.purge_command")
RUNGS = (
    ("files", "safe", "drop the cached pages of the files that pin them, if small and not written to"),
    ("advice", "safe", "name the files in tmpfs that pin them; nothing is removed"),
    ("reclaim", "safe", "reclaim in the narrowest live cgroup above them that has no processes"),
    ("files-in-use", "disruptive", "drop also large files, files that are written to, and disks' metadata"),
    ("reclaim-live", "disruptive", "reclaim also where processes run: they lose cached pages too"),
    ("drop-caches", "disruptive", "drop the page cache of the whole node: every program reads from disk again"),
)
FORMS = tuple(Form(argv=(*COMMAND, rung)) for rung, _, _ in RUNGS)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    if "memory" not in finding.subject.removeprefix("controller:").split(","):
        return None
    steps = (Step(says=says, argv=(*COMMAND, rung), risk=risk) for rung, risk, says in RUNGS)
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps))
