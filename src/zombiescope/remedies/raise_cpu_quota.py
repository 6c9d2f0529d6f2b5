"""Give a cgroup that is stopped while cores idle a larger CPU quota, or none.

Who set the quota must change it: what is written into the cgroup's file by hand is overwritten by kubelet, a runtime or
systemd, or lost with the next container. So this is advice, with the figures.

Safe: nothing is done from here.
Does not fix: a node whose cores are all busy: there a quota shares out what there is.
References: Documentation/scheduler/sched-bwc.rst; systemd.resource-control(5), CPUQuota=.
"""

from __future__ import annotations

import math

from zombiescope.cgroups.owners import by_path, owner
from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

CURES = ("cpu_throttling",)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    kind, _, path = finding.subject.partition(":")
    if kind != "cgroup":
        return None
    told = {it.what: it.value for it in finding.evidence}
    stopped, idle = told["cgroup_throttled_seconds_per_second"], told["cpu_idle_cores"]
    has = timeline.series("cgroup_cpu_quota_cores", finding.subject)
    quota = float(has.latest.value) if len(has) else 0.0
    # It asks for what it was kept from; of that the node can give what idled. Half a core at a time, as people do.
    wanted = math.ceil(2 * (quota + min(stopped, idle))) / 2
    figures = (
        (f"it may use {quota:g} cores" if quota else "how much it may use was not seen")
        + f", was stopped in {told['cgroup_throttled_ratio']:.0%} of its periods, {stopped:.2f} s a second, "
        f"and {idle:.1f} cores idled"
    )
    steps = (Step(says=figures), Step(says=_advice(path, wanted, bool(quota), timeline, finding.subject)))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)


def _advice(path: str, wanted: float, known: bool, timeline: Timeline, subject: str) -> str:
    much = f"{wanted:g}" if known else "more"
    its = by_path(path)
    whose = harmless(owner(timeline, subject) or path)
    if its.pod:
        return f"{whose}: set resources.limits.cpu to {much}, or leave the limit out and rely on requests"
    if its.runtime in ("docker", "podman"):
        return f"{whose}: {its.runtime} update --cpus={much} {its.name[:12]}, and the same where it is started"
    if its.kind == "unit" or path.endswith(".slice"):
        unit = its.name if its.kind == "unit" else path.rpartition("/")[2]
        percent = f"{wanted * 100:.0f}%" if known else "MORE%"
        return f"systemctl set-property {harmless(unit)} CPUQuota={percent}; CPUQuota= without a value lifts it"
    return f"whoever made {whose} should give it {much} cores: cpu.max on cgroup v2, cpu.cfs_quota_us on v1"
