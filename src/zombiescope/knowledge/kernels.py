"""What each kernel version does with dying cgroups and what a newer one fixes, from kernels.toml.

A kernel is judged by its version only where nothing can be measured: for an image that does not run, and for a kernel
that is not installed yet. A running kernel is measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import Entry, entries

Version = tuple[int, int]
LEVELS = ("", "note", "error")
CARRIED_BACK = ("*.el[0-9]*",)  # releases, as shell patterns, with backported fixes that their version does not show


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of some kernels."""

    name: str
    fixed: Version
    fault: str
    fix: str
    commit: str = ""
    level: str = ""
    mends: tuple[str, ...] = ()  # "SIGN SUBJECT"
    began: Version = (0, 0)

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError("level is error or note")

    @property
    def version(self) -> str:
        return f"{self.fixed[0]}.{self.fixed[1]}"

    def is_in(self, version: Version) -> bool:
        return self.began <= version < self.fixed

    def causes(self, sign: str, subject: str) -> bool:
        """Whether this fault causes a finding. A subject may name several: controller:cpu,memory."""
        kind, _, names = subject.partition(":")
        return any(f"{sign} {kind}:{name}" in self.mends for name in names.split(","))


def _made(entry: Entry) -> Fault:
    versions = {}
    for name in ("began", "fixed"):
        if name in entry:
            versions[name] = version_of(entry[name]) if isinstance(entry[name], str) else None
            if versions[name] is None:
                raise ValueError(f'{name} is a version, such as "5.8", not {entry[name]!r}')
    return shaped(Fault, entry, **versions)


SHAPES = {"kernel": _made}


@cache
def faults() -> tuple[Fault, ...]:
    """Every fault, the oldest fix first."""
    return tuple(sorted(entries("kernel", _made), key=lambda it: it.fixed))


@cache
def fault(name: str) -> Fault:
    return next(it for it in faults() if it.name == name)


def version_of(release: str) -> Version | None:
    """5.4.0-1103-aws is (5, 4); None if it is not a release."""
    found = re.match(r"(\d{1,3})\.(\d{1,3})(?!\d)", release)
    return (int(found[1]), int(found[2])) if found else None


def carries_fixes_back(release: str) -> bool:
    """Whether this distribution is known to backport fixes, so that a version proves nothing."""
    return any(fnmatchcase(release, pattern) for pattern in CARRIED_BACK)
