"""Who is accused: what follows from each first cause is added up, ranked, and weighed against what harms somebody.

Thresholds: an accusation needs somebody who is harmed. They are set with `--set harm.WAITED=0.2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

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
    past, noted, unsure = [], [], []
    for tree in trees:
        if all(it.span.end < began for it in tree.members):
            past += tree.members
        elif not accused(tree.now, memory):
            (unsure if _unmeasured(tree, memory) else noted).extend(tree.members)
    costs = [(tree.first, harm) for tree, harm in _shared(trees, cores)]
    return replace(
        case,
        costs=(*costs, *_would_be(case, trees, cores)),
        noted=tuple(dict.fromkeys(noted)),
        unsure=tuple(dict.fromkeys(unsure)),
        past=tuple(dict.fromkeys(past)),
    )


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
    """Whether a figure that could have accused is unknown: then nobody is cleared either."""
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
        now, whole = (settled(_union(harms), cores=cores) for harms in (here, [*here, *over]))
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


def _shared(trees: list[_Tree], cores: int) -> Iterator[tuple[_Tree, Harm]]:
    """What each costs; what two of them claim counts for the first, so that their sum is what was really lost."""
    claimed: dict[str, list[Part]] = {"waited": [], "burnt": []}
    for tree in trees:
        harm = tree.whole
        for figure, before in claimed.items():
            mine = [it for it in harm.parts if it.figure == figure]
            if not mine:
                continue
            alone, earlier, both = counted.spent(mine), counted.spent(before), counted.spent([*before, *mine])
            left = max(both.core_seconds - earlier.core_seconds, 0.0)
            if left < alone.core_seconds * 0.99:
                share = left / alone.core_seconds
                kept = [replace(it, amount=it.amount * share) for it in mine]
                harm = replace(harm, parts=(*(it for it in harm.parts if it.figure != figure), *kept))
                harm = settled(replace(harm, unknown=tree.whole.unknown), cores=cores)
            before += mine
        yield tree, harm


def _would_be(case: Case, trees: list[_Tree], cores: int) -> Iterator[tuple[Finding, Harm]]:
    """Of a cause that lost to a stronger one: what it would cost if it were the cause."""
    trees_of = {tree.first: tree for tree in trees}
    first_of = {it: tree for tree in trees for it in tree.members}
    for link in case.links:
        lost = link not in case.causes_of(link.effect)[:1] and link.cause in trees_of
        if lost and len(trees_of[link.cause].members) == 1 and link.effect in first_of:
            tree = first_of[link.effect]
            if link.cause != tree.first:
                effects = [it.harm for it in tree.members if it.span.start >= link.effect.span.start]
                harm = settled(_union([link.cause.harm, *effects]), cores=cores)
                yield link.cause, replace(harm, says=f"would be {harm.says}")
