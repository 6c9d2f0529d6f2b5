"""Which packages are the operating system's own, from packages.toml: units that they install are not judged."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages that belong to one part of the operating system."""

    packages: tuple[str, ...]  # patterns
    why: str


SHAPES = {"package": partial(shaped, Packages)}


@cache
def _known() -> tuple[Packages, ...]:
    return entries("package", SHAPES["package"])


def of_the_system(package: str) -> bool:
    """`package` is a name alone, without version and architecture."""
    return any(fnmatchcase(package, pattern) for it in _known() for pattern in it.packages)
