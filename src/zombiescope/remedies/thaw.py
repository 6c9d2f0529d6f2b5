"""Thaw a cgroup that somebody froze and did not thaw.

Disruptive: what froze it may count on it (docker pause, a checkpoint): the programs go on at once.
Does not fix: what froze it. A runtime that freezes again and again has to be fixed itself.
References: Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze; cgroup-v1/freezer-subsystem.rst.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.forms import PATH, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness

CURES = ("frozen_cgroup",)
RESTS_ON = {"cgroup_frozen": Witness.NAMES}  # a container may freeze, and name, cgroups of its own
FORMS = tuple(
    Form(argv=("tee", f"{{folder}}/{file}"), stdin=word, keeps=(f"{{folder}}/{file}",), varies={"folder": PATH})
    for word, file in (("THAWED", "freezer.state"), ("0", "cgroup.freeze"))
)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    source = finding.evidence[0].source
    if not finding.subject.startswith("cgroup:"):
        says = "raise the limit of its cgroup, or switch OOM kills on there: echo 0 > memory.oom_control"
        return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says=says),))
    folder, _, name = source.rpartition("/")
    words = ("THAWED", f"{folder}/freezer.state") if name == "freezer.state" else ("0", f"{folder}/cgroup.freeze")
    says = f"ask first who froze {harmless(finding.subject.removeprefix('cgroup:'))}, and whether it was on purpose"
    thaw = Step(says="then thaw it", argv=("tee", words[1]), stdin=words[0], keeps=(words[1],))
    return Plan(cures=finding, risk="disruptive", proof=CURES, steps=(Step(says=says), thaw))
