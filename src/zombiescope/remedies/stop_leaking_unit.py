"""Stop a unit that systemd restarts again and again, and mask it.

A unit that came with a package is stopped, disabled and masked. One that an administrator wrote cannot be masked (its
file is where the mask would be), so its restarts are switched off. A unit that others depend on is left running, but
with a start limit: after too many failures it stays down until somebody checks it.

Safe: it was of no use while it crashed. Undo restores its files byte for byte, and whether it runs.
Does not fix: why it crashes; what it left behind (see purge_zombies); the image that brings it to the next node
    (see `zombiescope gate`).
References: systemctl(1), mask; systemd.unit(5), StartLimitIntervalSec=; systemd.service(5), RestartPreventExitStatus=.
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.timeline import Timeline

CURES = ("crash_looping_unit",)
DROP_IN = "90-zombiescope.conf"
ADMINISTRATORS = "/etc/systemd/"  # where masks are links, and a unit's own file is in the way
BURST, SECONDS = 5, 3600  # starts within an hour: a unit that others need gets several chances, but no endless loop


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    kind, _, unit = finding.subject.partition(":")
    if kind != "unit" or not unit.endswith(".service"):
        return None
    return Plan(cures=finding, risk="safe", proof=CURES, steps=_steps(unit, timeline))


def _steps(unit: str, timeline: Timeline) -> tuple[Step, ...]:
    needed = _told(timeline, "unit_needed_by", unit)
    if needed:
        words = "RestartPreventExitStatus=" + status if (status := _status(timeline, unit)) else ""
        return (
            _drop_in(
                unit,
                f"[Unit]\nStartLimitIntervalSec={SECONDS}\nStartLimitBurst={BURST}\n"
                + (f"[Service]\n{words}\n" if words else ""),
                f"limit {unit} to {BURST} failures an hour; not masked, because it is needed by {needed}",
            ),
            _reload(unit),
        )
    stop = Step(says=f"stop {unit}", argv=("systemctl", "stop", "--", unit), unit=unit)
    disable = Step(says=f"disable {unit}: not started at boot", argv=("systemctl", "disable", "--", unit), unit=unit)
    if _told(timeline, "unit_file", unit).startswith(ADMINISTRATORS):
        why = f"switch off restarts of {unit}; it cannot be masked, because its file is in {ADMINISTRATORS}"
        return (_drop_in(unit, "[Service]\nRestart=no\n", why), _reload(unit), stop, disable)
    mask = Step(says=f"mask {unit}", argv=("systemctl", "mask", "--", unit), unit=unit)
    return (stop, disable, mask)


def _drop_in(unit: str, text: str, says: str) -> Step:
    path = f"/etc/systemd/system/{unit}.d/{DROP_IN}"
    return Step(says=says, argv=("install", "-D", "-m", "644", "-T", "/dev/stdin", path), stdin=text, unit=unit)


def _reload(unit: str) -> Step:
    return Step(says="reload systemd's configuration", argv=("systemctl", "daemon-reload"), unit=unit)


def _told(timeline: Timeline, what: str, unit: str) -> str:
    series = timeline.series(what, f"unit:{unit}")
    return series.latest.text if len(series) else ""


def _status(timeline: Timeline, unit: str) -> str:
    """The exit code that it keeps failing with; empty for a signal or success."""
    told = re.search(r"Result=exit-code, ExecMainStatus=(\d+)", _told(timeline, "unit_restarts_total", unit))
    return told[1] if told and told[1] != "0" else ""
