"""The first lines of a report: what is wrong, since when, what it broke, how sure, what to type next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from zombiescope.core import Case, Finding, Unexplained
from zombiescope.core.model import SLACK
from zombiescope.outputs._offers import meant
from zombiescope.outputs._story import Chain, fix_command, ground_kind, next_commands, strongest
from zombiescope.outputs._subjects import in_words
from zombiescope.outputs._times import both

STILL = 5.0  # seconds before the end: what was seen so late was going on when the recording ended
SHOWN = 3  # subjects named for one kind of damage, and commands
_FIX = "shows what would be changed, and changes nothing"
_ADVICE = "says what to do"
Row = tuple[str, str]


def rows(case: Case, root: Finding) -> Iterator[Row]:
    """What a person asks first about a root cause, each answer with its label."""
    chains = [chain for chain in case.chains if chain[0] == root]
    if case.cost_of(root).says:
        yield "costs", case.cost_of(root).says.removeprefix("costs ")
    yield "since", since(case, chains)
    yield "broke", broke(chains)
    yield "sure", _sure(case, chains)


def since(case: Case, chains: Sequence[Chain]) -> str:
    """When it began, and whether it went on when the recording ended: the cause, or what followed from it."""
    start = min(chain[0].span.start for chain in chains)
    end = max(finding.span.end for chain in chains for finding in chain)
    if end - start < SLACK:
        return f"{both(start)}, once"
    began = both(start) + (" or earlier (it was there when the recording began)" * _at_start(case, start))
    return f"{began}; {'still going on' if case.span.end - end <= STILL else f'last seen {both(end)}'}"


def _at_start(case: Case, start: float) -> bool:
    return start <= case.span.start + SLACK


def broke(chains: Sequence[Chain]) -> str:
    """What the chains end in, by sign: how often, and of what. A reset on the way to a failed job counts too."""
    signs = {chain[-1].sign for chain in chains if len(chain) > 1}
    ends = list(dict.fromkeys(it for chain in chains for it in chain[1:] if it.sign in signs))
    if not ends:
        return "nothing else was seen to follow from it"
    said = []
    for sign, times in Counter(it.sign for it in ends).most_common():
        subjects = list(dict.fromkeys(in_words(it.subject, most=40) for it in ends if it.sign == sign))
        more = f" and {len(subjects) - SHOWN} more" if len(subjects) > SHOWN else ""
        named = ", ".join(subjects[:SHOWN]) + more
        said.append((f"{times} × " if times > 1 else "") + f"{sign.replace('_', ' ')} ({named})")
    return ", ".join(said)


def _sure(case: Case, chains: Sequence[Chain]) -> str:
    longest = max(chains, key=len)
    if len(longest) == 1:
        candidates = [it for one in case.unexplained if one.finding == longest[0] for it in one.candidates]
        there = [it.law.partition("_to_")[0] for it in candidates if it.there]
        if there:
            return f"seen directly; also there, though nothing shows that it led to this: {', '.join(there)}"
        return "seen directly" + ("; every known cause of it was looked for and ruled out" * bool(candidates))
    links = [case.causes_of(effect)[0] for effect in longest[1:]]
    kinds = Counter(ground_kind(strongest(link)) for link in links)
    words = ", ".join(f"{kind} {times}" for kind, times in kinds.most_common())
    others = list(dict.fromkeys(it.cause.sign for effect in longest[1:] for it in case.rivals_of(effect)))
    unchecked = case.unchecked_for(*longest)
    rest = f"; other possible causes: {', '.join(others[:SHOWN])}" if others else ""
    if unchecked:
        more = f" and {len(unchecked) - SHOWN} more" if len(unchecked) > SHOWN else ""
        rest += f"; could not be checked: {', '.join(unchecked[:SHOWN])}{more}"
    rest = rest or "; no other possible cause found"
    many = "1 link" if len(links) == 1 else f"{len(links)} links, each"
    return f"{many} with evidence beyond timing: {words}{rest}"


def no_cause(puzzle: Unexplained) -> str:
    """Why nothing explains a finding: what was ruled out, what was there, and what could not be checked."""
    ruled_out = [it.law.partition("_to_")[0] for it in puzzle.candidates if not it.blind and not it.there]
    there = [it.law.partition("_to_")[0] for it in puzzle.candidates if it.there]
    unchecked = [it.law.partition("_to_")[0] for it in puzzle.candidates if it.blind]
    said = [f"ruled out: {', '.join(ruled_out)}" if ruled_out else ""]
    said.append(f"there, but not shown to be the cause: {', '.join(there)}" if there else "")
    said.append(f"could not be checked: {', '.join(unchecked)}" if unchecked else "")
    return "; ".join(["no cause found", *filter(None, said)])


def commands(case: Case) -> list[str]:
    """What to type next, a line each where it is said what it does; the others share one."""
    found = next_commands(case)[:SHOWN]
    fix = fix_command(case)
    does = _ADVICE if all(plan.advice for plan in meant(case)) else _FIX
    explained = [f"{it}  ({does})" for it in found if it == fix]
    rest = "  ·  ".join(it for it in found if it != fix)
    return [*explained, *([rest] if rest else [])]
