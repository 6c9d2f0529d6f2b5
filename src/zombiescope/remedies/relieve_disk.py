"""Say what relieves a disk that is too slow for what is asked of it: a higher limit, a larger disk, less work.

Whether a disk is slow because of a limit, of credits that ran out or because it fails can be read from the figures, not
changed from this node. So this is advice.

Safe: nothing is changed.
Does not fix: a program that writes more than any disk takes.
References: systemd.resource-control(5), IOReadIOPSMax=; the cloud's documentation of its disks.
"""

from __future__ import annotations

from zombiescope.cgroups.owners import unit_of_cgroup
from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.commands import is_unit
from zombiescope.core.timeline import Timeline

CURES = ("disk_stall",)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    steps = (Step(says=harmless(finding.says)), *(Step(says=it) for it in _advice(finding)))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)


def _advice(finding: Finding) -> tuple[str, ...]:
    kind, _, name = finding.subject.partition(":")
    if kind == "cgroup":
        if is_unit(unit := unit_of_cgroup(name)):
            return (f"raise IOReadIOPSMax= and its kin of {unit}, or take them out",)
        return (f"raise the limit of {harmless(name)} where it was set: io.max on cgroup v2, blkio.throttle on v1",)
    if "ceiling" in finding.says:
        return (
            "the disk does as much as it may: a disk with more requests or bytes a second, or credits for bursts",
            "move what writes most (container layers, logs) to a disk of its own",
        )
    if "did not answer" in finding.says or "timeouts" in finding.says:
        return ("the device or its path fails: dmesg and its SMART data show more; drain the node and replace it",)
    return ("find out what writes most: iotop, or io.stat of each cgroup; a disk of its own helps what must not wait",)
