"""Raise the limit of a table that is full, after finding out what fills it.

A limit is set where it was set before: a sysctl in /etc/sysctl.d, TasksMax= of a unit, the pod limit of kubelet. A
value written by hand is lost at the next boot or overwritten. So this is advice, with the name of the setting and the
figures.

Safe: nothing is changed.
Does not fix: what fills the table. A leak fills a larger one too, only later.
References: Documentation/admin-guide/sysctl; systemd.resource-control(5), TasksMax=; kubelet's podPidsLimit.
"""

from __future__ import annotations

from zombiescope.cgroups.owners import by_path, unit_of_cgroup
from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.commands import in_sentence, is_unit, not_a_unit, operand
from zombiescope.core.timeline import Timeline

CURES = ("table_full",)
_SETTINGS = {
    "table:threads": "kernel.pid_max and kernel.threads-max",
    "table:file handles": "fs.file-max",
    "table:AIO requests": "fs.aio-max-nr",
    "table:IPv4 neighbours": "net.ipv4.neigh.default.gc_thresh3 (and gc_thresh2 to half of it)",
    "table:IPv6 neighbours": "net.ipv6.neigh.default.gc_thresh3 (and gc_thresh2 to half of it)",
    "table:IPv6 routes": "net.ipv6.route.max_size",
}


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    steps = (Step(says=harmless(finding.says)), Step(says=_advice(finding.subject)))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)


def _advice(subject: str) -> str:
    kind, _, name = subject.partition(":")
    if kind == "cgroup":
        if by_path(name).pod:
            return "find out which program in the pod makes threads without end; kubelet's podPidsLimit is its limit"
        unit = unit_of_cgroup(name)
        if is_unit(unit):
            command = in_sentence("systemctl", "set-property", *operand(unit), "TasksMax=NUMBER")
            return f"{command}, if it needs that many threads at all"
        advice = f"what made {harmless(name)} sets its pids.max; find out first which program makes the threads"
        return f"{advice}; {not_a_unit(unit)}" if unit else advice
    if kind == "user":
        return "sysctl fs.inotify.max_user_instances=1024 in /etc/sysctl.d: an instance costs about 1 KB"
    if name.startswith("keys of user"):
        return "sysctl kernel.keys.maxkeys and kernel.keys.maxbytes in /etc/sysctl.d: each container takes a key"
    setting = _SETTINGS.get(subject, "its sysctl")
    return f"raise {setting} in /etc/sysctl.d, to twice what is used; then find out what uses so many"
