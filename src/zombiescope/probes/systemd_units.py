"""systemd's services: how often each was restarted, whether it runs, its cgroup, whether it can loop forever.

Overhead: 3.6 ms a sample with 60 services that systemd may restart (0.5 ms to list all, 45 µs to ask for a count),
    1.4 ms of PID 1 and 3 ms of dbus-daemon. It does not grow with the rate of restarts: counts are read, no signals.
Kernel: none: org.freedesktop.systemd1 over D-Bus. NRestarts came with systemd 235, ListUnitsByPatterns with 230.
    NRestarts is reset by every manual start; the count given here only rises. A unit's cgroup is given as the host
    names it, also for a systemd in a container (the environment variable ZOMBIESCOPE_SYSTEMD_BUS gives the address of
    another bus, such as unix:path=/proc/4711/root/run/dbus/system_bus_socket).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from zombiescope.audit.loops import judge
from zombiescope.audit.systemd import (
    POLICY,
    Systemd,
    Unit,
    address_for,
    another_init,
    cgroup_of,
    cgroup_prefix,
    policy_of,
)
from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.knowledge.agents import gives_up_with

EVERY = 6.0
WITNESS = Witness.SYSTEMD
GIVES = (
    *("unit_restarts_total", "unit_active", "unit_cgroup", "unit_loops_for_ever", "units_failed"),
    *("unit_file", "unit_needed_by", "systemd_answer_seconds"),
)
ALARMS = GIVES[:1]
CURVES = (("unit restarts", "per s", "unit_restarts_total", "all"),)
MOST = 400  # services asked about in a sample, 20 ms; no normal node has more
TOLD = 50  # restarting services reported in full: enough to find a cause
TRIES = 8  # times that a service is asked how it failed, until it answers
APART = 0.005  # seconds between them: a run that fails at once takes about 15 ms, and its result shows for part of that
# ExecStart has code (0 while it runs, CLD_EXITED, CLD_KILLED, …) and status: one property, so both are of one run.
_ENDED = ("Result", "ExecMainStatus", "ExecStart")
_NEEDED = ("RequiredBy", "BoundBy")  # units that stop with it
_WANTED = "WantedBy"  # units that run better with it; a target wants whatever is enabled
_NOW = (*_ENDED, "ControlGroup", "Slice", "FragmentPath", *_NEEDED, _WANTED)
Look = Callable[[], Iterator[Reading | Blind]]


@contextmanager
def watch(host: Host) -> Iterator[Look]:
    """Keeps the bus open and the counts; a bus that was away is tried again in every sample."""
    address = address_for(host)
    with closing(Systemd(address)) as systemd:
        yield _Eye(host, systemd, cgroup_prefix(host, address)).look


def read(host: Host) -> Iterator[Reading | Blind]:
    with watch(host) as look:
        yield from look()


class _Eye:
    """What has to be remembered between two samples."""

    def __init__(self, host: Host, systemd: Systemd, prefix: str) -> None:
        self._host, self._systemd, self._prefix = host, systemd, prefix
        self._restart: dict[str, str] = {}  # Restart= of each unit seen so far
        self._counted: dict[str, tuple[int, int]] = {}  # NRestarts in the last sample, and the sum over its resets
        self._groups: dict[str, str] = {}  # the last cgroup that a unit was seen in
        self._awake: set[str] = set()
        self._failures: dict[str, str] = {}  # how a unit was last seen to end
        self._resting: set[str] = set()  # services that do not run now

    def look(self) -> Iterator[Reading | Blind]:
        began = time.monotonic()
        try:
            units = self._systemd.units("*.service")
        except Unreadable:
            if other := another_init(self._host):
                raise Unreadable("/proc/1/comm", f"PID 1 is {other}: no systemd runs, so no unit was checked") from None
            raise
        at, took = self._host.now(), time.monotonic() - began
        asked = self._systemd.source(None, "Units")
        yield Reading(what=GIVES[7], subject="node", value=took, at=at, source=asked)
        failed = [unit.name for unit in units if unit.active == "failed"]
        source = self._systemd.source(None, "NFailedUnits")
        yield Reading(
            what=GIVES[4], subject="node", value=len(failed), at=at, source=source, text=" ".join(failed[:TOLD])
        )
        loaded = [unit for unit in units if unit.load == "loaded"]
        gone = self._awake - {unit.name for unit in loaded}
        if len(loaded) > MOST:
            why = f"{len(loaded):,} services, of which only {MOST} were read"
            yield Blind(what=GIVES[0], source=source, why=why, subject="node")
            loaded = loaded[:MOST]
        self._resting = {unit.name for unit in units if unit.active in ("inactive", "failed")}
        self._forget(loaded)
        self._learn(loaded)
        awake = [
            unit
            for unit in loaded
            if (self._restart.get(unit.name, "no") != "no" and unit.active != "inactive") or unit.sub == "auto-restart"
        ]
        counts = self._systemd.get([unit.path for unit in awake], ["NRestarts"])
        restarting = [
            unit for unit in awake if counts.get(unit.path, {}).get("NRestarts", 0) or unit.sub == "auto-restart"
        ]
        restarting.sort(key=lambda unit: counts.get(unit.path, {}).get("NRestarts", 0), reverse=True)
        details = self._systemd.get([unit.path for unit in restarting[:TOLD]], [*_NOW, *POLICY])
        self._note_failures(restarting[:TOLD], details)
        for unit in awake:
            yield from self._told(unit, at, counts.get(unit.path, {}) | details.get(unit.path, {}))
        yield from self._states(loaded, at)
        for name in sorted(gone):  # stopped and masked, or removed
            source = self._systemd.source(None, "Units")
            yield Reading(what=GIVES[1], subject=f"unit:{name}", value=0.0, at=at, source=source, text="not loaded")

    def _states(self, units: list[Unit], at: float) -> Iterator[Reading]:
        """Which units run; a unit that stopped is reported once more, otherwise its last state would seem to hold."""
        for unit in units:
            if unit.active != "inactive" or unit.name in self._awake:
                running, source = float(unit.active == "active"), self._systemd.source(unit, "ActiveState")
                subject = f"unit:{unit.name}"
                yield Reading(what=GIVES[1], subject=subject, value=running, at=at, source=source, text=unit.state)
        self._awake = {unit.name for unit in units if unit.active != "inactive"}

    def _forget(self, units: list[Unit]) -> None:
        """Forget units that systemd has unloaded: a node may run thousands of short-lived services."""
        kept = {unit.name for unit in units}
        for known in (self._restart, self._counted, self._groups, self._failures):
            for name in known.keys() - kept:
                del known[name]

    def _learn(self, units: list[Unit]) -> None:
        """Only a unit with Restart= set can restart; that is read once for each unit."""
        new = {unit.path: unit.name for unit in units if unit.name not in self._restart}
        for path, told in self._systemd.get(new, ["Restart"]).items():
            self._restart[new[path]] = str(told["Restart"])

    def _note_failures(self, units: list[Unit], details: dict[str, dict[str, Any]]) -> None:
        """The next start sets a unit's Result to "success" again: one that restarts fast is asked a few times."""
        for again in range(TRIES):
            for unit in units:
                if end := ending(details.get(unit.path, {})):
                    self._failures[unit.name] = end
            unknown = [unit.path for unit in units if unit.name not in self._failures]
            if not unknown or again == TRIES - 1:
                return
            self._systemd.wait(APART)
            for path, told in self._systemd.get(unknown, _ENDED).items():
                details[path] = details.get(path, {}) | told

    def _told(self, unit: Unit, at: float, told: dict[str, Any]) -> Iterator[Reading]:
        if "NRestarts" not in told:  # gone since it was listed
            return
        now = int(told["NRestarts"])
        last, total = self._counted.get(unit.name, (0, 0))
        total += now - last if now >= last else now  # a manual start sets it to 0
        self._counted[unit.name] = (now, total)
        subject = f"unit:{unit.name}"
        failure = self._failures.get(unit.name)
        text = ", ".join([unit.state, f"NRestarts={now}", *([failure] if failure else [])])
        source = self._systemd.source(unit, "NRestarts")
        yield Reading(what=GIVES[0], subject=subject, value=total, at=at, source=source, text=text)
        if "Slice" not in told:
            return
        if told.get("ControlGroup") or unit.name not in self._groups:
            self._groups[unit.name] = self._prefix + cgroup_of(unit.name, told)
        source = self._systemd.source(unit, "ControlGroup")
        yield Reading(what=GIVES[2], subject=subject, value=1, at=at, source=source, text=self._groups[unit.name])
        judged = judge(policy_of(told), gives_up_with(unit.name))
        source = self._systemd.source(unit, "Restart")
        yield Reading(
            what=GIVES[3], subject=subject, value=float(judged.for_ever), at=at, source=source, text=judged.says
        )
        source = self._systemd.source(unit, "FragmentPath")
        path = str(told.get("FragmentPath", ""))
        yield Reading(what=GIVES[5], subject=subject, value=float(bool(path)), at=at, source=source, text=path)
        needed = {str(name) for kind in _NEEDED for name in told.get(kind, ())}
        needed |= {str(name) for name in told.get(_WANTED, ()) if not str(name).endswith(".target")}
        needs = sorted(needed - self._resting)
        source = self._systemd.source(unit, _NEEDED[0])
        yield Reading(
            what=GIVES[6], subject=subject, value=len(needs), at=at, source=source, text=" ".join(needs[:TOLD])
        )


def ending(told: Mapping[str, Any]) -> str:
    """How its last run ended; empty if that cannot be seen now. The next start sets Result and the rest back.

    Each property is asked for on its own, and a unit that restarts fast is started anew in between: what does not fit
    together is of two runs.
    """
    result, runs = str(told.get("Result", "success")), [tuple(run[-2:]) for run in told.get("ExecStart", ())]
    code, status = next((run for run in reversed(runs) if run[0]), (0, told.get("ExecMainStatus")))
    if result == "success" and (code, status) != (os.CLD_EXITED, 0):
        return ""
    if result == "exit-code" and not status:
        return ""
    return f"Result={result}, ExecMainStatus={status}"
