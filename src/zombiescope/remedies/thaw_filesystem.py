"""Thaw a file system that a snapshot or a backup froze and did not thaw.

Disruptive: a snapshot that is still being taken may be useless afterwards; the programs that wait go on at once.
Does not fix: the agent that froze it and died, or that waits for its own log on that file system.
References: fsfreeze(8); fs/super.c, thaw_super.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.forms import PATH, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness

CURES = ("frozen_filesystem",)
RESTS_ON = {"process_blocked_on_mount": Witness.NAMES}  # the path is that of the writer's mount namespace
FORMS = (Form(argv=("fsfreeze", "--unfreeze", "--", "{place}"), varies={"place": f"/|{PATH}"}),)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    place = finding.subject.removeprefix("mount:")
    if not finding.subject.startswith("mount:/"):
        says = "find the mount that its writers have files on (ls -l /proc/PID/fd), then fsfreeze --unfreeze it"
        return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says=says),))
    ask = f"ask first whether a backup or a snapshot of {harmless(place)}, as its writers see it, is still being taken"
    # Nothing is taken back: to freeze it again would be the fault itself.
    steps = (Step(says=ask), Step(says="then thaw it", argv=("fsfreeze", "--unfreeze", "--", place)))
    return Plan(cures=finding, risk="disruptive", proof=CURES, steps=steps)
