"""Every service of a node or an image in one row: installed, enabled, running, restarting, used.

Unit files say what is installed and enabled, systemd (where it answers) what runs and restarts, the knowledge base
which agent it is and how its use would show. What one of them cannot say stays unknown, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zombiescope.audit.essential import essential
from zombiescope.audit.loops import Judgement, RestartPolicy, judge
from zombiescope.audit.systemd import POLICY, Systemd, Unit, address_for, policy_of
from zombiescope.audit.unit_file import UnitFile
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.audit.use import Usage, Use
from zombiescope.core import Host, Unreadable
from zombiescope.knowledge.agents import Agent, agent_of, gives_up_with, leaker_of

RESTARTED = 3  # restarts, and rising or waiting for the next: fewer is a service that waits for another one at boot
_DETAILS = ("NRestarts", *POLICY)
_ASKERS = ("RequiredBy", "WantedBy", "BoundBy", "RequisiteOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One service."""

    unit: str
    path: str  # of its unit file; "" for one that systemd has and no folder does (generated, transient)
    enabled: str  # as `systemctl is-enabled`: enabled, disabled, static, masked, …; "" if it has no file
    enabled_by: tuple[str, ...] = ()
    state: str = ""  # "active (running)"; "" where systemd could not be asked or has not loaded it
    restarts: int | None = None
    restarting: bool = False  # in a loop, now
    policy: RestartPolicy
    judged: Judgement
    preset: str = ""  # the distribution's preset: enable, disable
    agent: Agent | None = None
    essential: bool = False
    use: Use | None = None

    @property
    def running(self) -> bool:
        return self.state.startswith(("active", "activating", "reloading"))

    @property
    def starts(self) -> bool:
        """Whether something pulls it in at boot."""
        return bool(self.enabled_by) and self.enabled != "masked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    rows: tuple[Row, ...]
    unseen: tuple[Unreadable, ...]  # what could not be read
    left: Mapping[str, int] = field(default_factory=dict)  # existing cgroups, by the program known to leave them behind


def survey(host: Host, *, agents_only: bool = False, again: float = 0.0) -> Survey:
    """All services, or those of known agents. With `again` the restart counters are read twice, that far apart."""
    unseen: list[Unreadable] = []
    files = UnitFiles(host)
    try:
        running = _Running(host, agents_only=agents_only, again=again)
    except Unreadable as error:
        unseen.append(error)
        running = None
    names = {*files.names("*.service"), *(running.units if running else ())}
    usage = Usage(host, running.active if running else None)
    asked = [name for name in sorted(names) if not agents_only or _agent(name)]
    found = {name: _file(files, name) for name in asked}
    known = [found[name] or UnitFile(name=name, path="") for name in asked]
    exempt = essential(host, known).names
    rows = [_row(name, found[name], files, running, usage, exempt=name in exempt) for name in asked]
    left = Counter() if agents_only else Counter(_leakers(usage))
    return Survey(rows=tuple(rows), unseen=tuple(unseen), left=left)


def _leakers(usage: Usage) -> Iterator[str]:
    try:
        paths = usage.cgroups()
    except Unreadable:  # the signs of use report it
        return
    for path in paths:
        if leaker := leaker_of(path):
            yield leaker.name


class _Running:
    """What systemd says about its services, at one or two times."""

    def __init__(self, host: Host, *, agents_only: bool, again: float) -> None:
        with Systemd(address_for(host)) as systemd:
            every = systemd.units("*")
            self.active = {unit.name: unit.active for unit in every}
            self.units = {it.name: it for it in every if it.name.endswith(".service") and it.load == "loaded"}
            agents = [unit.path for unit in self.units.values() if agent_of(unit.name)]
            paths = agents if agents_only else [unit.path for unit in self.units.values()]
            self.told = systemd.get(paths, _DETAILS)
            self.before: dict[str, Any] = {}
            if again:
                systemd.wait(again)
                self.before, self.told = self.told, systemd.get(paths, _DETAILS)
            self.asked_for = systemd.get(agents, _ASKERS)

    def restarts(self, unit: Unit) -> tuple[int | None, bool]:
        now = self.told.get(unit.path, {}).get("NRestarts")
        before = self.before.get(unit.path, {}).get("NRestarts", now)
        if now is None:
            return None, False
        return int(now), now >= RESTARTED and (unit.sub == "auto-restart" or now > before)

    def needed_by(self, unit: Unit) -> list[str]:
        """Active units that pull it in; a target only means that it was enabled."""
        askers = {name for names in self.asked_for.get(unit.path, {}).values() for name in names}
        return sorted(it for it in askers if not it.endswith(".target") and self.active.get(it) == "active")


def _row(
    name: str, file: UnitFile | None, files: UnitFiles, running: _Running | None, usage: Usage, *, exempt: bool
) -> Row:
    agent = _agent(name)
    unit = running.units.get(name) if running else None
    told = running.told.get(unit.path, {}) if running and unit else {}
    policy = policy_of(told) if "Restart" in told else files.policy(file) if file else RestartPolicy()
    restarts, restarting = running.restarts(unit) if running and unit else (None, False)
    row = Row(
        unit=name,
        path=file.path if file else "",
        enabled=file.state if file else "",
        enabled_by=file.enabled_by if file else (),
        state=unit.state if unit else "inactive (not loaded)" if running else "",
        restarts=restarts,
        restarting=restarting,
        policy=policy,
        judged=judge(policy, gives_up_with(name)),
        preset=files.preset(name),
        agent=agent,
        essential=exempt,
    )
    if (
        agent is None or row.essential or file is None
    ):  # without a file it is not part of this root: a transient or generated unit
        return row
    needed: Sequence[str] = running.needed_by(unit) if running and unit else files.needed_by(name)
    return replace(row, use=usage.of(agent, needed, wanted=row.starts or row.running))


def _agent(name: str) -> Agent | None:
    return None if name.endswith("@.service") else agent_of(name)


def _file(files: UnitFiles, name: str) -> UnitFile | None:
    try:
        return files.unit(name)
    except Unreadable:
        return None
