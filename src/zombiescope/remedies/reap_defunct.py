"""Signal a parent once more to reap its zombie processes, and say what helps if it does not.

The kernel sent the parent one signal for each child, which it may have missed: signals of one kind do not queue.
Sent once more, the signal makes a parent that counts signals call wait(2) again. Other parents ignore it: SIGCHLD does
nothing unless a program asks for it.

Safe: SIGCHLD ends no process, and there is nothing to undo. Restarting the parent is advice, because it ends its work.
Does not fix: a parent that never waits, or is stuck: it has to be fixed or restarted; its zombies then go to the first
    process, which reaps them.
References: wait(2), NOTES; signal(7), "Standard signals do not queue".
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.commands import in_sentence
from zombiescope.core.forms import Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness

CURES = ("defunct_processes",)
RESTS_ON = {"defunct_children": Witness.KERNEL}
FORMS = (Form(argv=("kill", "-CHLD", "{pid}"), varies={"pid": r"[1-9][0-9]{0,9}"}),)  # 0 is a whole group
_PROCESS = re.compile(r"process:(.*)\[(\d+)\]", re.DOTALL)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    found = _PROCESS.fullmatch(finding.subject)
    if found is None:
        return None
    name, pid = harmless(found[1]), found[2]
    steps = [Step(says=f"signal {name} once more that children have ended", argv=("kill", "-CHLD", pid))]
    if pid == "1":
        says = "the first process must reap every orphan: in a container run it under an init that does (tini)"
        steps.append(Step(says=says))
    else:
        says = (
            f"if they stay, {name} does not reap its children: restart what runs it "
            f"({in_sentence('systemctl', 'status', pid)} shows its unit or container) and fix the program; "
            "in a container, an init that reaps orphans, such as tini or `docker run --init`, "
            "does not help while the parent runs"
        )
        steps.append(Step(says=says))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps))
