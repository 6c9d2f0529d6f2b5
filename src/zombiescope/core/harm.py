"""What a finding costs, and whom: five plain figures, each zero, a number, or unknown. There is no score.

A sign gives the parts that it measured. The engine counts every part once, and says what follows from a cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zombiescope.core.model import Reading, Span

FIGURES = ("broken", "waited", "burnt", "held", "soon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of a cost. What is found twice, or inside another piece, is counted once."""

    figure: str  # one of FIGURES, but soon
    who: str  # broken: what failed; waited: the victim; burnt: who spends it; held: what holds it
    amount: float  # times; cores' worth over the span; bytes
    span: Span
    kind: str = ""  # of what broke: jobs, kills, resets, refused, drops, crashes
    within: tuple[str, ...] = ()  # what it is a piece of: the cgroup of a process, the core of a walk, "node"
    demand: float = 0.0  # waited: the cores that the victim wanted; 0 where that is not known
    contended: float | None = None  # burnt: cores' worth of others that waited for that core or share; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """Figures that were not measured are None, and named in `unknown`; None for `soon` alone: it does not grow."""

    parts: tuple[Part, ...] = ()
    broken: tuple[tuple[str, int], ...] = ()  # by kind; this and the next three are worked out from the parts
    waited_cores: float | None = None
    burnt_cores: float | None = None
    held_bytes: float | None = None
    soon_seconds: float | None = None  # until what grows reaches its limit
    limit: str = ""  # which limit that is, in words
    whom: tuple[str, ...] = ()  # the victims, the worst first
    unknown: tuple[str, ...] = ()  # of FIGURES: nothing measured them
    evidence: tuple[Reading, ...] = ()  # of figures that are not in the finding's own evidence
    says: str = ""


NOTHING_KNOWN = Harm(unknown=FIGURES)
