"""What follows from each first cause is added up, ranked and weighed: an accusation needs harm.

Thresholds: one of them is enough for an accusation. They are set with `--set harm.WAITED=0.2`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import Case, Finding
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis import counted
from zombiescope.diagnosis.cost_words import words

WAITED = 0.05  # cores' worth of waiting: one thread that loses 50 ms of each second misses deadlines, whatever the node
DEMAND = 0.01  # of what a victim wanted: a small container that loses a hundredth is a hundredth slower
BURNT = 0.05  # cores spent on a fault: less is the ordinary cost of an agent on a node of any size
CONTENDED = 0.05  # cores' worth of others that waited for it then: an idle core that is used harms nobody
HELD = 0.01  # of all memory: it grows with the node, and less is never the reason that a program does not fit
SOON = 604_800.0  # seconds, seven days: within a week somebody must act, whatever the size of the node
_RIVALS = 50  # other possible causes whose cost is worked out: a report names five for one effect
# Failed work and killed programs before devices, before packets. What fails again and again at its own start (crashes)
# has nobody waiting for it, as far as was seen: it ranks after what others lose.
_FIRST = (("jobs", "kills"), ("resets",), ("refused",), ("drops",))


@dataclass(frozen=True, slots=True)
class _Tree:
    """A first cause, and all that follows from it by the links that the chains show."""

    first: Finding
    members: tuple[Finding, ...]
    longest: int
    now: Harm  # of what did not end before the look began
    whole: Harm  # with what broke before it


def settled(harm: Harm, *, cores: int = 0) -> Harm:
    """The figures worked out from the parts, and the words."""
    by_figure: dict[str, list[Part]] = {}
    for part in harm.parts:
        by_figure.setdefault(part.figure, []).append(part)
    waited, burnt = (counted.spent(by_figure.get(it, [])) for it in ("waited", "burnt"))
    failed = counted.broken(by_figure.get("broken", []))
    unknown = tuple(dict.fromkeys(it for it in harm.unknown if it not in by_figure))
    if harm.soon_seconds is not None:
        unknown = tuple(it for it in unknown if it != "soon")

    def known(figure: str, value: float) -> float | None:
        return None if figure in unknown else value

    found = replace(
        harm,
        broken=tuple(failed.items()),
        waited_cores=known("waited", round(waited.cores, 4)),
        burnt_cores=known("burnt", round(burnt.cores, 4)),
        held_bytes=known("held", counted.held(by_figure.get("held", []))),
        whom=tuple(dict.fromkeys((*(who for who, _ in waited.by), *(it.who for it in by_figure.get("broken", []))))),
        unknown=unknown,
    )
    return replace(found, says=words(found, waited, burnt, cores))


def judged(case: Case, timeline: Timeline, *, since: float = 0.0) -> Case:
    """The case with what each cause costs, and what is set aside: the past, the harmless, what nobody could weigh.

    `since` seconds before the end of the look, or its start if that is earlier: what ended before then is past.
    """
    began = min(case.span.start, case.span.end - since)
    cores = len(timeline.subjects("cpu_idle_seconds_total", "cpu"))
    total = timeline.series("memory_total_bytes")
    memory = total.latest.value if len(total) else 0.0
    trees = sorted(_trees(case, began, cores), key=lambda tree: _rank(tree, began, case.span.start))
    aside: dict[str, list[_Tree]] = {"past": [], "noted": [], "unsure": [], "accused": []}
    for tree in trees:
        over = all(it.span.end < began for it in tree.members)
        aside["past" if over else _judgement(tree, memory)].append(tree)
    costs = {tree.first: tree.whole for tree in trees} | dict(_shared(aside["accused"], cores))
    past, noted, unsure = (
        tuple(dict.fromkeys(it for tree in aside[name] for it in tree.members)) for name in ("past", "noted", "unsure")
    )
    return replace(
        case,
        costs=tuple((costs | dict(_would_be(case, trees, cores))).items()),
        noted=noted,
        unsure=unsure,
        past=past,
    )


def _judgement(tree: _Tree, memory: float) -> str:
    if accused(tree.now, memory):
        return "accused"
    return "unsure" if _unmeasured(tree, memory) else "noted"


def accused(harm: Harm, memory: float) -> bool:
    """Whether somebody is harmed. What is unknown never accuses."""
    waits = [it for it in harm.parts if it.figure == "waited"]
    return (
        bool(harm.broken)
        or (harm.waited_cores or 0.0) >= WAITED
        or any(it.demand and it.amount >= DEMAND * it.demand for it in waits)
        or _burnt(harm, lambda it: it is not None and it >= CONTENDED) >= BURNT
        or (memory > 0 and (harm.held_bytes or 0.0) >= HELD * memory)
        or (harm.soon_seconds is not None and harm.soon_seconds < SOON)
    )


def _unmeasured(tree: _Tree, memory: float) -> bool:
    """Whether a figure that could have accused is unknown: then nothing is cleared either."""
    harm = tree.now
    missing = any(it.harm.unknown for it in tree.members)
    uncertain = _burnt(harm, lambda it: it is None) >= BURNT
    return missing or uncertain or (not memory and bool(harm.held_bytes))


def _burnt(harm: Harm, wanted: Callable[[float | None], bool]) -> float:
    parts = [it for it in harm.parts if it.figure == "burnt" and wanted(it.contended)]
    return counted.spent(parts).cores


def _trees(case: Case, began: float, cores: int) -> Iterator[_Tree]:
    """Every first cause with its own; a cause that lost to a stronger one stands alone."""
    members: dict[Finding, dict[Finding, None]] = {}
    longest: dict[Finding, int] = {}
    for chain in case.chains:
        members.setdefault(chain[0], {}).update(dict.fromkeys(chain))
        longest[chain[0]] = max(longest.get(chain[0], 0), len(chain))
    placed = {it for its in members.values() for it in its}
    for finding in case.findings:
        if finding not in placed:
            members[finding] = {finding: None}
    for first, its in members.items():
        here = [it.harm for it in its if it.span.end >= began]
        over = [_over(it.harm) for it in its if it.span.end < began]
        now = settled(_union(here), cores=cores)
        whole = settled(_union([*here, *over]), cores=cores) if over else now
        yield _Tree(first, tuple(its), longest.get(first, 1), now, whole)


def _union(harms: Iterable[Harm]) -> Harm:
    every = list(harms)
    timed = [it for it in every if it.soon_seconds is not None]
    soonest = min(timed, key=lambda it: it.soon_seconds or 0.0, default=None)
    return Harm(
        parts=tuple(dict.fromkeys(part for it in every for part in it.parts)),
        unknown=tuple(dict.fromkeys(name for it in every for name in it.unknown)),
        soon_seconds=soonest.soon_seconds if soonest else None,
        limit=soonest.limit if soonest else "",
        evidence=tuple(dict.fromkeys(reading for it in every for reading in it.evidence)),
    )


def _over(harm: Harm) -> Harm:
    """What ended keeps what it broke; nobody waits for it any more."""
    return Harm(parts=tuple(it for it in harm.parts if it.figure == "broken"), evidence=harm.evidence)


def _rank(tree: _Tree, began: float, start: float) -> tuple[object, ...]:
    """Going on before past; then what broke, by kind; waited, burnt, crashes, soon, held; then the longer chain."""
    harm, end = tree.whole, max(it.span.end for it in tree.members)
    failed = dict(harm.broken)
    return (
        end < began,
        end < start,
        *(-sum(failed.get(kind, 0) for kind in kinds) for kinds in _FIRST),
        -(harm.waited_cores or 0.0),
        -(harm.burnt_cores or 0.0),
        -failed.get("crashes", 0),
        harm.soon_seconds if harm.soon_seconds is not None else float("inf"),
        -(harm.held_bytes or 0.0),
        -tree.longest,
        tree.first.span.start,
    )


def _shared(trees: list[_Tree], cores: int) -> Iterator[tuple[Finding, Harm]]:
    """What each costs; what two of them claim counts for the first, so that their sum is what was really lost."""
    claimed: dict[str, list[Part]] = {"waited": [], "burnt": []}
    for tree in trees:
        harm = tree.whole
        for figure, before in claimed.items():
            mine = [it for it in harm.parts if it.figure == figure]
            first, last = (
                min((it.span.start for it in mine), default=0.0),
                max((it.span.end for it in mine), default=0.0),
            )
            met = [it for it in before if mine and it.span.start <= last and it.span.end >= first]
            before += mine
            if not met:
                continue
            alone, earlier, both = counted.spent(mine), counted.spent(met), counted.spent([*met, *mine])
            left = max(both.core_seconds - earlier.core_seconds, 0.0)
            if left < alone.core_seconds * 0.99:
                kept = [replace(it, amount=it.amount * left / alone.core_seconds) for it in mine]
                others = [it for it in harm.parts if it.figure != figure]
                harm = settled(replace(harm, parts=(*others, *kept)), cores=cores)
        yield tree.first, harm


def _would_be(case: Case, trees: list[_Tree], cores: int) -> Iterator[tuple[Finding, Harm]]:
    """Of causes that lost to a stronger one: what each would cost if it were the cause."""
    alone = {tree.first for tree in trees if len(tree.members) == 1}
    tree_of = {it: tree for tree in trees for it in tree.members}
    rivals = ((rival.cause, effect) for effect in _effects(case) for rival in case.rivals_of(effect))
    for cause, effect in islice((it for it in rivals if it[0] in alone), _RIVALS):
        follows = [it.harm for it in tree_of[effect].members if it.span.start >= effect.span.start]
        harm = settled(_union([cause.harm, *follows]), cores=cores)
        yield cause, replace(harm, says=harm.says.replace("costs", "would cost", 1))


def _effects(case: Case) -> list[Finding]:
    """Those with more than one cause."""
    times = Counter(link.effect for link in case.links)
    return [effect for effect, causes in times.items() if causes > 1]
