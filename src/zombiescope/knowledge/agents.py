"""What is known about agents: their units and cgroups, how they leak, what shows that they are used, what helps.

The facts are data (agents.toml, timers.toml); this file gives them a shape and finds what a name belongs to.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cache

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import Entry, entries

# What a sign of use may check on a machine, and the keys it needs.
KINDS = {
    "file_exists": ("path",),
    "file_contains": ("path", "pattern"),
    "folder_filled": ("path",),
    "cgroup_exists": ("pattern",),
    "process_running": ("names",),
    "unit_active": ("pattern",),
    "port_connected": ("port",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOfUse:
    """One way to see that an agent is used."""

    kind: str
    says: str
    path: str = ""
    pattern: str = ""
    names: tuple[str, ...] = ()
    port: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no such kind of sign of use: {self.kind}; there are {', '.join(KINDS)}")
        missing = [name for name in KINDS[self.kind] if not getattr(self, name)]
        if missing:
            raise ValueError(f"{self.kind} ({self.says}) has no {missing[0]}")
        if self.kind == "file_contains":
            re.compile(self.pattern)

    @property
    def subject(self) -> str:
        """What it checks, in one word: distinguishes it from the others of an agent."""
        return f"{self.kind}/{self.path or self.pattern or ','.join(self.names) or self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A program that runs on nodes for a service or a team."""

    name: str
    says: str
    units: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    leaks: str = ""
    gives_up_with: int | None = None
    claim: bool = True
    fix: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    use: tuple[SignOfUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """How often a timer has to fire to be named, and why."""

    often_seconds: float
    leaks: str
    references: tuple[str, ...] = ()


@cache
def agents() -> tuple[Agent, ...]:
    return entries("agent", _agent)


@cache
def timers() -> Timers:
    return entries("timer", _timers)[0]


def agent_of(unit: str) -> Agent | None:
    return next((agent for agent in agents() if _any_matches(unit, agent.units)), None)


def gives_up_with(unit: str) -> int | None:
    """The exit code with which its program says "do not restart me"."""
    agent = agent_of(unit)
    return agent.gives_up_with if agent else None


def leaker_of(cgroup: str) -> Agent | None:
    """The agent that is known to leave cgroups of this name behind."""
    return next((agent for agent in agents() if agent.leaks and _any_matches(cgroup, agent.cgroups)), None)


def _agent(entry: Entry) -> Agent:
    """An entry that is misspelt is an error at once, not an agent that is never found."""
    signs = entry.get("use", [])
    if not isinstance(signs, list) or not all(isinstance(it, dict) for it in signs):
        raise ValueError("write each sign of use as [[agent.use]]")
    return shaped(Agent, entry, use=tuple(shaped(SignOfUse, it) for it in signs))


def _timers(entry: Entry) -> Timers:
    return shaped(Timers, entry)


SHAPES = {"agent": _agent, "timer": _timers}


def _any_matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
