"""Which units a node needs, from units.toml: what `fix` must not stop, and what is never called unused."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from functools import cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries

CONDITIONS = ("", "containers_run", "last_access")
# Unit files that their generator writes anew: a change there does not last, and undo could not hold what it restores.
GENERATED = ("/run/systemd/transient/", "/run/systemd/generator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units that are needed for one reason."""

    units: tuple[str, ...]  # patterns
    why: str
    never_stop: bool = False
    never_judge: bool = False
    only_while: str = ""  # one of CONDITIONS: when never_stop holds

    def __post_init__(self) -> None:
        if self.only_while not in CONDITIONS:
            raise ValueError(f"only_while is one of {', '.join(CONDITIONS[1:])}")

    def names(self, unit: str) -> bool:
        return any(fnmatch.fnmatchcase(unit, pattern) for pattern in self.units)


SHAPES = {"unit": partial(shaped, Units)}


@cache
def needed() -> tuple[Units, ...]:
    return entries("unit", SHAPES["unit"])


def never_stop(unit: str) -> list[Units]:
    """The entries that forbid stopping a unit; some apply only under a condition."""
    return [it for it in needed() if it.never_stop and it.names(unit)]


def never_judge(unit: str) -> bool:
    """Whether a unit is never called unused and never blamed for its restart policy."""
    return any(it.never_judge and it.names(unit) for it in needed())
