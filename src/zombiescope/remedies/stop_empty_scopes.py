"""Stop scopes in which no process is left, so that systemd removes their cgroups.

At most `systemd_scopes.TOLD` at a time, because only those are known by name: where a leak has left more, repeat it.

Safe: there is no process in them that could be stopped, and none can start in an empty scope.
Does not fix: why systemd did not notice their end; what makes them; folders that systemd does not know are left.
References: systemd.scope(5).
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.commands import is_unit
from zombiescope.core.forms import SCOPE, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness

CURES = ("empty_scopes",)
RESTS_ON = {"empty_scopes": Witness.NAMES}  # folders of cgroups that are called like scopes
AFTERMATH = True
AT_ONCE = 50  # names in one command: a person can still read it
# systemctl(1): 5 is "not loaded": a folder that another program left, which systemd cannot stop.
COMMAND = ("sh", "-c", 'systemctl stop -- "$@" || [ $? = 5 ]', "stop")
_MORE = rf"(?:\x01{SCOPE})*"
FORMS = (Form(argv=(*COMMAND, "{unit}{more}"), unit="{unit}", varies={"unit": SCOPE, "more": _MORE}),)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    told = [name for it in finding.evidence if it.what == "empty_scopes" for name in it.text.split()]
    names = [name for name in told if is_unit(name) and name.endswith(".scope")]
    steps = []
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        # One of them stands for all: it shows which systemd is meant.
        steps.append(Step(says=f"stop {len(some)} empty scopes", argv=(*COMMAND, *some), unit=some[0]))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps)) if steps else None
