"""Remind a parent of its dead children, and say what helps if it does not listen.

The kernel told the parent once for each child, by a signal that it may have missed: signals of one kind do not queue.
Sent once more it makes a parent that counts by signals look again. Others ignore it: SIGCHLD does nothing unless a
program asks for it.

Safe: SIGCHLD ends nobody, and there is nothing to undo. To restart the parent is advice, for that ends its work.
Does not fix: a parent that never waits, or is stuck: it has to be mended or restarted; its dead children then go to
    the first process, which waits for them.
References: wait(2), NOTES; signal(7), "Standard signals do not queue".
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

CURES = ("defunct_processes",)
_PROCESS = re.compile(r"process:(.*)\[(\d+)\]", re.DOTALL)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    found = _PROCESS.fullmatch(finding.subject)
    if found is None:
        return None
    name, pid = harmless(found[1]), found[2]
    steps = [Step(says=f"tell {name} once more that children have ended", argv=("kill", "-CHLD", pid))]
    if pid == "1":
        says = "the first process must wait for every orphan: in a container run it below an init that does (tini)"
        steps.append(Step(says=says))
    else:
        says = (
            f"if they stay, {name} does not wait for its children: restart what runs it (systemctl status {pid} tells "
            "its unit or container), and have it mended; in a container an init that waits for orphans, such as tini "
            "or `docker run --init`, does not help while the parent lives"
        )
        steps.append(Step(says=says))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=tuple(steps))
