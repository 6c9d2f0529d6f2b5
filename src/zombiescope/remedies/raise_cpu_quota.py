"""Give a cgroup that is throttled while cores are idle a larger CPU quota, or none.

The quota must be changed where it was set: a value written into the cgroup's file by hand is overwritten by kubelet, a
runtime or systemd, or lost with the next container. So this is advice, with the figures.

Safe: nothing is changed.
Does not fix: a node whose cores are all busy: there the quota shares out what there is.
References: Documentation/scheduler/sched-bwc.rst; systemd.resource-control(5), CPUQuota=.
"""

from __future__ import annotations

import math
import re

from zombiescope.cgroups.owners import by_path, owner, unit_of_cgroup
from zombiescope.core import Case, Finding, Plan, Step, harmless, percent
from zombiescope.core.commands import in_sentence, is_unit, not_a_unit, operand
from zombiescope.core.timeline import Timeline

CURES = ("cpu_throttling",)
_ID = re.compile("[0-9a-f]{64}")
IDLE = 0.25  # of a core: with less, a larger quota only takes the time from others


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    kind, _, path = finding.subject.partition(":")
    if kind != "cgroup":
        return None
    told = {it.what: it.value for it in finding.evidence}
    stopped, idle = told["cgroup_throttled_seconds_per_second"], told["cpu_idle_cores"]
    if idle < IDLE:
        return None
    has = timeline.series("cgroup_cpu_quota_cores", finding.subject)
    quota = float(has.latest.value) if len(has) else 0.0
    # It needs the time it was throttled; of that the node can give what was idle. Rounded up to half a core.
    wanted = math.ceil(2 * (quota + min(stopped, idle))) / 2
    figures = (
        (f"its quota is {quota:g} cores" if quota else "its quota is not known")
        + f"; it was throttled in {percent(told['cgroup_throttled_ratio'])} of its periods "
        f"({stopped:.2f} s of each second) while {idle:.1f} cores were idle"
    )
    steps = (Step(says=figures), Step(says=_advice(path, wanted, bool(quota), timeline, finding.subject)))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)


def _advice(path: str, wanted: float, known: bool, timeline: Timeline, subject: str) -> str:
    much = f"{wanted:g}" if known else "more"
    its = by_path(path)
    whose = harmless(owner(timeline, subject) or path)
    if its.pod:
        return f"{whose}: set resources.limits.cpu to {much}, or leave the limit out and rely on requests"
    if its.runtime in ("docker", "podman") and _ID.fullmatch(its.name):
        update = in_sentence(its.runtime, "update", f"--cpus={much}", its.name[:12])
        return f"{whose}: {update}, and the same where it is started"
    unit = unit_of_cgroup(path)
    if is_unit(unit):
        quota = f"{wanted * 100:.0f}%" if known else "MORE%"
        return (
            f"{in_sentence('systemctl', 'set-property', *operand(unit), f'CPUQuota={quota}')}; "
            "CPUQuota= without a value removes it"
        )
    advice = f"what made {whose} should give it {much} cores: cpu.max on cgroup v2, cpu.cfs_quota_us on v1"
    return f"{advice}; {not_a_unit(unit)}" if unit else advice
