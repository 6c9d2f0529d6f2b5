"""Upgrade to a kernel that has the fix for what was found.

Only fixes for what was found on this kernel version are named, with the version that has them.

Safe: nothing is changed; a new kernel means a reboot (see drain_and_reboot).
Does not fix: whatever makes cgroups again and again: on every kernel a live one costs something. Distributions backport
    fixes without a new version, Red Hat's most of all: where the figures stay small, the fix may already be there.
References: kernel commits 42a300353577 (in v5.2), dd8657b6c1cb (in v5.8), 2d146aa3aa84 (in v5.13).
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.kernels import Fault, faults, version_of

CURES = ("zombie_cgroups", "slow_stat_read")


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    runs = version_of(case.kernel)
    helps = [it for it in faults() if runs and it.is_in(runs) and it.causes(finding.sign, finding.subject)]
    if not helps:
        return None
    steps = tuple(
        Step(says=f"this is {harmless(case.kernel)}; from Linux {it.version} on {it.fix}{_where(it)}") for it in helps
    )
    return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=steps)


def _where(fault: Fault) -> str:
    return f" ({fault.commit})" if re.fullmatch("[0-9a-f]{12}", fault.commit) else ""
