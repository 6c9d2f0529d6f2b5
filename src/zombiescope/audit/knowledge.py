"""What is known of agents: their units and cgroups, how they leak, what shows that they are used, what helps.

The knowledge itself is data (`knowledge.toml`); this file gives it a shape and finds what a name belongs to.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

# What a sign of use may ask of a machine, and what it has to name.
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
        missing = [name for name in KINDS[self.kind] if not getattr(self, name)]
        if missing:
            raise ValueError(f"{self.kind} ({self.says}) has no {missing[0]}")
        if self.kind == "file_contains":
            re.compile(self.pattern)

    @property
    def subject(self) -> str:
        """What it looks at, in one word: told apart from the others of an agent by it."""
        return f"{self.kind}/{self.path or self.pattern or ','.join(self.names) or self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A program that runs on nodes on somebody's behalf."""

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
class KernelChange:
    """Something a kernel does better since a version."""

    since: str
    commit: str
    says: str
    before: str

    @property
    def version(self) -> tuple[int, int]:
        major, _, minor = self.since.partition(".")
        return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    agents: tuple[Agent, ...]
    essential: tuple[str, ...]
    often_seconds: float
    timers_leak: str
    kernel: tuple[KernelChange, ...]

    def agent_of(self, unit: str) -> Agent | None:
        return next((agent for agent in self.agents if _any_matches(unit, agent.units)), None)

    def gives_up_with(self, unit: str) -> int | None:
        """The exit code with which its program says that trying again is no use."""
        agent = self.agent_of(unit)
        return agent.gives_up_with if agent else None

    def leaker_of(self, cgroup: str) -> Agent | None:
        """Who is known to leave cgroups of this name behind."""
        return next((agent for agent in self.agents if agent.leaks and _any_matches(cgroup, agent.cgroups)), None)

    def is_essential(self, unit: str) -> bool:
        return _any_matches(unit, self.essential)


@lru_cache(maxsize=1)
def knowledge() -> Knowledge:
    return read(resources.files("zombiescope.audit").joinpath("knowledge.toml").read_text(encoding="utf-8"))


def read(text: str) -> Knowledge:
    """A table that is misspelt is an error at once, not an agent that is never found."""
    table = tomllib.loads(text)
    timers = table.get("timers", {})
    return Knowledge(
        agents=tuple(_agent(it) for it in table.get("agent", [])),
        essential=tuple(table.get("essential", {}).get("units", [])),
        often_seconds=float(timers.get("often_seconds", 0)),
        timers_leak=timers.get("leaks", ""),
        kernel=tuple(KernelChange(**it) for it in table.get("kernel", [])),
    )


def _agent(table: dict[str, Any]) -> Agent:
    signs = tuple(SignOfUse(**_frozen(it)) for it in table.pop("use", []))
    return Agent(use=signs, **_frozen(table))


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


def _any_matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
