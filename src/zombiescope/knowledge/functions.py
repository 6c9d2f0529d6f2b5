"""What a stack shows, by the families of kernel functions in functions.toml: walk, reclaim, fault, lock, idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Functions that do the same thing."""

    family: str
    names: frozenset[str]
    says: str
    known: str = ""


SHAPES = {"function": partial(shaped, Family)}


@cache
def families() -> tuple[Family, ...]:
    return entries("function", SHAPES["function"])


@cache
def named(*of: str) -> frozenset[str]:
    """The functions of these families."""
    return frozenset().union(*(it.names for it in families() if it.family in of))


@lru_cache(maxsize=1 << 15)  # a node has some thousand functions, in ten thousand stacks: asked 300,000 times a look
def plain(frame: str) -> str:
    """A frame's function without the suffix of a compiler (.isra.0) or of the symbol table ( [module])."""
    return frame.partition(" [")[0].partition(".")[0]


def shows(frames: Iterable[str], *of: str) -> bool:
    """Whether a stack has a function of one of these families."""
    return not named(*of).isdisjoint(map(plain, frames))


def walks(frames: Sequence[str]) -> bool:
    """Whether a stack is at work on cgroups: visiting them, or opening and printing their files.

    Reclaim goes through all cgroups too, but a process that waits for memory is not a walker: see direct_reclaim.
    """
    names = {plain(frame) for frame in frames}
    walking = names & named("cgroup_walk", "cgroup_visit", "cgroup_file")
    return bool(walking) and not names & named("direct_reclaim", "background_reclaim", "reclaim_scan")


def visits(frames: Sequence[str]) -> bool:
    """Whether a stack is of a walk that visits cgroups: every one, or those whose statistics changed."""
    return walks(frames) and shows(frames, "cgroup_walk", "cgroup_visit")


def walked_in(frames: Sequence[str]) -> str:
    """The function that says most about a walk: the outermost that visits, else the outermost of the files'."""
    names = [plain(frame) for frame in frames]
    for of in (("cgroup_walk", "cgroup_visit"), ("cgroup_file",)):
        if found := next((it for it in names if it in named(*of)), ""):
            return found
    return names[-1]


def softirq_kind(frames: Iterable[str]) -> str:
    """Which softirq a stack is of, as /proc/softirqs names it; empty if of none."""
    return next((kind for frame in frames if (kind := _softirqs().get(frame))), "")


@cache
def _softirqs() -> dict[str, str]:
    return {name: it.says for it in families() if it.family == "softirq" for name in it.names}


def is_idle(leaf: str) -> bool:
    """Whether a stack whose innermost frame this is only waits."""
    return plain(leaf) in named("idle")
