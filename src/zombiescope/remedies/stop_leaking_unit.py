"""Stop a unit that fails again and again and leaves something behind each time, and mask it.

Only a unit that is seen to fail (systemd's Result, not just its restarts), and that either leaves its own cgroups
behind or is an agent that nothing here uses. Others are left alone, with advice: a worker that ends with success after
each job, a service that is OOM-killed now and then, one that works for minutes between two failures.

A unit that came with a package is stopped, disabled and masked. One that an administrator wrote cannot be masked (its
file is where the mask would be), so its restarts are switched off. A unit that active units need is left running, but
with a start limit: after too many starts within an hour it stays down until somebody checks it.

Safe: it did no work while it failed. Undo restores its files byte for byte, and whether it runs.
Does not fix: why it crashes; what it left behind (see purge_zombies); the image that brings it to the next node
    (see `zombiescope gate`).
References: systemctl(1), mask; systemd.unit(5), StartLimitIntervalSec=; systemd.service(5), Table 1 (Result).
"""

from __future__ import annotations

import re

from zombiescope.cgroups.unit_cgroups import left_behind
from zombiescope.core import Case, Finding, Plan, Step, harmless, lasting
from zombiescope.core.commands import in_sentence, is_unit, not_a_unit, operand
from zombiescope.core.forms import NUMBER, SERVICE, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.knowledge.units import GENERATED

CURES = ("crash_looping_unit",)
RESTS_ON = {
    "unit_restarts_total": Witness.SYSTEMD,
    "unit_active": Witness.SYSTEMD,
    "unit_cgroup": Witness.SYSTEMD,
    "unit_file": Witness.SYSTEMD,
    "unit_needed_by": Witness.SYSTEMD,
    "cgroup_removals_total": Witness.KERNEL,
    "cgroup_releases_total": Witness.KERNEL,
    "agent_uses": Witness.ABSENCE,
}
DROP_IN = "90-zombiescope.conf"
ADMINISTRATORS = "/etc/systemd/"  # where masks are links, and a unit's own file is in the way
BURST, SECONDS = 5, 3600  # starts within an hour: a unit that others need gets several chances, but no endless loop
WORKS = 60.0  # seconds between two restarts: a service that runs this long may well do its work
FEWEST = 5  # of its cgroups still held: those of the last second or two may only not be freed yet
MOSTLY = 0.5  # of the samples active: below, it waits for its next start rather than works
_LIMIT = "[Unit]\nStartLimitIntervalSec={seconds}\nStartLimitBurst={burst}\n"
_NO_RESTART = "[Service]\nRestart=no\n"
_DROP_IN = f"/etc/systemd/system/{{unit}}.d/{DROP_IN}"
_INSTALL = ("install", "-D", "-m", "644", "-T", "/dev/stdin")
_VARIES = {"unit": SERVICE, "seconds": NUMBER, "burst": NUMBER}
FORMS = (
    *(
        Form(argv=("systemctl", verb, "--", "{unit}"), unit="{unit}", varies=_VARIES)
        for verb in ("stop", "disable", "mask")
    ),
    *(Form(argv=(*_INSTALL, _DROP_IN), stdin=text, unit="{unit}", varies=_VARIES) for text in (_LIMIT, _NO_RESTART)),
    Form(argv=("systemctl", "daemon-reload"), unit="{unit}", varies=_VARIES),
)
_RESULT = re.compile(r"Result=([a-z-]+)(?:, ExecMainStatus=(\d+))?")


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    kind, _, unit = finding.subject.partition(":")
    if kind != "unit" or (is_unit(unit) and not unit.endswith(".service")):
        return None
    if not is_unit(unit):
        return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says=not_a_unit(unit)),))
    why_not = _why_not(unit, finding, case, timeline)
    steps = _advice(unit, why_not) if why_not else _steps(unit, timeline)
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)


def _why_not(unit: str, finding: Finding, case: Case, timeline: Timeline) -> str:
    """Why nothing is done to it; empty if it fails and is of no use."""
    file = _told(timeline, "unit_file", unit)
    if file.startswith(GENERATED):
        return f"its file {harmless(file)} is generated: change what generates it"
    results = _results(finding, timeline)
    if not results:
        return "how it ends was not seen, so it may restart on purpose"
    if "success" in results:
        return "it ends with success, so it restarts on purpose"
    if any(it.sign == "unused_agent" and it.subject == finding.subject for it in case.findings):
        return ""
    if "oom-kill" in results:
        return "it is OOM-killed, and works in between: give it more memory (MemoryMax=), or find what it leaks"
    if runs := _runs(finding, timeline):
        return f"it fails, but runs for {lasting(runs)} on average in between"
    if not _leaves_cgroups(finding, timeline):
        return "it fails, but none of its cgroups was seen to stay behind and nothing shows that it is unused"
    return ""


def _results(finding: Finding, timeline: Timeline) -> set[str]:
    """How systemd says it ended, each time that was seen."""
    restarts = timeline.series("unit_restarts_total", finding.subject)
    texts = {restarts.reading(place).text for place in range(len(restarts))}
    return {found[1] for text in texts if (found := _RESULT.search(text))}


def _runs(finding: Finding, timeline: Timeline) -> float:
    """How long it runs on average before it ends, if that is long enough to work and it is active most of the time."""
    restarts = timeline.series("unit_restarts_total", finding.subject)
    active = timeline.series("unit_active", finding.subject)
    if len(restarts) < 2 or not len(active):
        return 0.0
    times = max(float(restarts.values[-1] - restarts.values[0]), 1.0)
    apart = (restarts.until - float(restarts.at[0])) / times
    return apart if apart >= WORKS and float(active.values.mean()) >= MOSTLY else 0.0


def _leaves_cgroups(finding: Finding, timeline: Timeline) -> bool:
    """Its own, seen one by one: that the node has ever more of them may be the doing of another unit.

    Which are its own systemd has to say: anybody may give a cgroup below his own the name of a unit. Where releases
    were not seen, those that were freed are not known.
    """
    if not len(timeline.series("unit_cgroup", finding.subject)) or not timeline.looked("cgroup_releases_total"):
        return False
    own = left_behind(finding.subject, timeline)
    return own.stay and own.held >= FEWEST


def _advice(unit: str, why: str) -> tuple[Step, ...]:
    log, disable = ("journalctl", f"--unit={unit}"), ("systemctl", "disable", "--now", *operand(unit))
    says = f"to see why it ends: {in_sentence(*log)}; if nobody needs it: {in_sentence(*disable)}"
    return Step(says=f"{unit} is left alone: {why}"), Step(says=says)


def _steps(unit: str, timeline: Timeline) -> tuple[Step, ...]:
    needed = _told(timeline, "unit_needed_by", unit)
    if needed:
        says = f"limit {unit} to {BURST} starts an hour; not stopped, because it is needed by {harmless(needed)}"
        return (_drop_in(unit, _LIMIT.format(seconds=SECONDS, burst=BURST), says), _reload(unit))
    stop = Step(says=f"stop {unit}", argv=("systemctl", "stop", "--", unit), unit=unit)
    disable = Step(says=f"disable {unit}: not started at boot", argv=("systemctl", "disable", "--", unit), unit=unit)
    if _told(timeline, "unit_file", unit).startswith(ADMINISTRATORS):
        why = f"switch off restarts of {unit}; it cannot be masked, because its file is in {ADMINISTRATORS}"
        return (_drop_in(unit, _NO_RESTART, why), _reload(unit), stop, disable)
    mask = Step(says=f"mask {unit}", argv=("systemctl", "mask", "--", unit), unit=unit)
    return (stop, disable, mask)


def _drop_in(unit: str, text: str, says: str) -> Step:
    return Step(says=says, argv=(*_INSTALL, _DROP_IN.format(unit=unit)), stdin=text, unit=unit)


def _reload(unit: str) -> Step:
    return Step(says="reload systemd's configuration", argv=("systemctl", "daemon-reload"), unit=unit)


def _told(timeline: Timeline, what: str, unit: str) -> str:
    series = timeline.series(what, f"unit:{unit}")
    return series.latest.text if len(series) else ""
