"""Thaw a file system that a snapshot or a backup froze and did not thaw.

Its writers may be in a container, whose table of mounts is its own: its /data is another file system than the node's.
So it is thawed where the node has the same device mounted, and nowhere else; the command looks once more.

Disruptive: a snapshot that is still being taken may be useless afterwards; the programs that wait go on at once.
Does not fix: the agent that froze it and died, or that waits for its own log on that file system; one that the node
    itself has not mounted.
References: fsfreeze(8); fs/super.c, thaw_super; proc_pid_mountinfo(5).
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.forms import PATH, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.places.own_python import own_python

CURES = ("frozen_filesystem",)
COMMAND = own_python("zombiescope.treatment.thaw_command")
# The path is that of a writer's mount namespace, or of a mount of the node that somebody named.
RESTS_ON = {"process_blocked_on_mount": Witness.NAMES, "process_blocked_on_device": Witness.NAMES}
_NUMBERS = r"[0-9]{1,5}:[0-9]{1,8}"
FORMS = (Form(argv=(*COMMAND, "{device}", "{place}"), varies={"device": _NUMBERS, "place": f"/|{PATH}"}),)
_DEVICE = "process_blocked_on_device"
_PLACE = re.compile(rf"({_NUMBERS}) (/.*)", re.DOTALL)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    mount = finding.subject.removeprefix("mount:")
    if not finding.subject.startswith("mount:/"):
        says = "find the mount that its writers have files on (ls -l /proc/PID/fd), then fsfreeze --unfreeze it"
        return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says=says),))
    told = {it.text: it.value for it in finding.evidence if it.what == _DEVICE}
    if len(told) != 1 or not (found := _PLACE.fullmatch(next(iter(told)))):
        return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says=_why_not(told)),))
    device, place = found[1], found[2]
    ask = f"ask first whether a backup or a snapshot of {harmless(mount)}, as its writers see it, is still being taken"
    thaw = f"then thaw it at {harmless(place)}, where the node has the same device, {device}"
    # Nothing is taken back: to freeze it again would be the fault itself.
    steps = (Step(says=ask), Step(says=thaw, argv=(*COMMAND, device, place)))
    return Plan(cures=finding, risk="disruptive", proof=CURES, steps=steps)


def _why_not(told: dict[str, float]) -> str:
    do = "enter the mount namespace of a writer (nsenter --mount --target PID) and fsfreeze --unfreeze it there"
    if not told:
        return f"no command is given, because the device that is frozen was not read: {do}"
    if len(told) > 1:
        return f"no command is given, because its writers see different devices there: {do}"
    return f"no command is given, because the node itself has not mounted device {harmless(next(iter(told)))}: {do}"
