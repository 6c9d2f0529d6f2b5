"""What a report says whatever it is written as: the verdict, each chain once, what could not be seen, by reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zombiescope.core import Candidate, Case, Finding, Ground, Link, Span, Tally, lasting
from zombiescope.core.commands import can_be_shown, command
from zombiescope.core.model import GROUNDS
from zombiescope.core.samples import SOURCE as STACKS
from zombiescope.knowledge.blind_causes import what_to_do
from zombiescope.outputs._offers import meant
from zombiescope.outputs._subjects import in_words
from zombiescope.outputs._times import both

NAMED = 3  # root causes that a headline names; the rest are counted
OTHERS = 5  # other possible causes that are named for one effect; JSON has them all
SAMPLE = "--sample"  # how a user names the recording that comes with the tool
PROBLEM, OK, NOT_SURE = "PROBLEM", "OK", "NOT SURE"
_GROUNDS = {
    "order": "began before",
    "place": "same place",
    "dose": "amounts match",
    "mechanism": "seen in stacks",
    "experiment": "stopped after the fix",
}
Chain = tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A chain to show in full, and those that ran like it, which need no more than a line."""

    chain: Chain
    before: int  # how many of its first stages an earlier one has shown already
    again: tuple[Chain, ...]  # of each chain alike, the stages that are its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Signs that could not look, all for one reason."""

    state: str  # blind or broken
    signs: tuple[str, ...]
    says: str
    do: str  # what would let them look


def headline(case: Case) -> tuple[str, str]:
    """The answer in one word, and in one sentence."""
    if case.problems:
        puzzles = [it.finding for it in case.riddles]
        said = [_named(case.root_causes), f"no cause found for {_named(puzzles)}" if puzzles else ""]
        return PROBLEM, "; ".join(words for words in said if words) or _named(case.problems)
    unseen = [verdict for verdict in case.verdicts if verdict.state in ("blind", "broken")]
    harms = " that harms anybody" if case.noted or case.past or case.unsure else ""
    doubts = []
    if case.unsure:
        signs = ", ".join(dict.fromkeys(it.sign for it in case.unsure))
        doubts.append(f"what {signs} costs could not be measured")
    if unseen or not case.verdicts:
        doubts.append(f"{len(unseen)} of {len(case.verdicts)} checks could not look")
    if doubts:
        return NOT_SURE, f"nothing found{harms}, but {' and '.join(doubts)}"
    return OK, f"all {len(case.verdicts)} checks looked and found nothing{harms}"


def _named(findings: Sequence[Finding]) -> str:
    words = [f"{sentence(it)} ({it.sign})" for it in findings[:NAMED]]
    return "; ".join(words + [f"{len(findings) - NAMED} more"] * (len(findings) > NAMED))


def sentence(finding: Finding) -> str:
    """A finding as a sentence: its subject in words, and what is said of it."""
    return f"{in_words(finding.subject)} {finding.says}"


def why_not(candidate: Candidate) -> str:
    """What became of a known cause that explains nothing."""
    if candidate.blind:
        return "could not be checked"
    return "there, but not shown to be the cause" if candidate.there else "ruled out"


def ground_kind(ground: Ground) -> str:
    """How we know, in plain words. A mechanism may also be seen elsewhere than in stacks: in the driver's own log."""
    if ground.kind == "mechanism" and not any(it.source == STACKS for it in ground.evidence):
        return "seen directly"
    return _GROUNDS[ground.kind]


def ground_words(ground: Ground) -> str:
    """A ground in plain words; a law that says how it knows is not made to say it twice."""
    words = ground_kind(ground)
    if ground.kind == "order":
        return ground.says  # "began 8.0 s before"
    return f"{words}: {ground_figures(ground)}"


def ground_figures(ground: Ground) -> str:
    """What a ground says, without how we know where a law says that too."""
    words = f"{ground_kind(ground)}: "
    return ground.says[len(words) :] if ground.says.lower().startswith(words) else ground.says


def strongest(link: Link) -> Ground:
    return max(link.grounds, key=lambda ground: GROUNDS.index(ground.kind))


def tellings(case: Case) -> list[Telling]:
    """The longest chain first. One whose signs are the same, or end earlier, ran like it."""
    groups: list[list[Chain]] = []
    aside = case.set_aside
    for chain in case.chains:
        if aside.issuperset(chain):
            continue  # it accuses nobody, and has a line of its own
        signs = [finding.sign for finding in chain]
        alike = (group for group in groups if [it.sign for it in group[0]][: len(signs)] == signs)
        group = next(alike, None)
        if group is None:
            groups.append([chain])
        else:
            group.append(chain)
    shown: set[Finding] = set()
    found = []
    for first, *others in groups:
        before = sum(finding in shown for finding in first)
        shown |= set(first)
        # A stage that several chains share (the leak, the walker) is shown once.
        again = [tuple(finding for finding in chain if finding not in shown) for chain in others]
        shown |= {finding for chain in again for finding in chain}
        again.sort(key=lambda chain: chain[0].span.start)
        found.append(Telling(chain=first, before=before, again=tuple(again)))
    return found


def unseen(case: Case) -> list[Unseen]:
    """The blind, then the broken; those that were refused with the same words together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in sorted(case.verdicts, key=lambda verdict: verdict.state):
        if verdict.state in ("blind", "broken"):
            reasons.setdefault((verdict.state, verdict.says), []).append(verdict.sign)
    return [
        Unseen(state=state, signs=tuple(signs), says=says, do=what_to_do(says if state == "blind" else state))
        for (state, says), signs in reasons.items()
    ]


def consistency(case: Case) -> Iterator[tuple[Tally, str]]:
    """How often each law held, where there was more than one chance."""
    for it in case.tallies:
        if it.effects > 1 or it.causes > 1:
            cause, _, effect = it.law.partition("_to_")
            idle = it.causes - it.led
            yield (
                it,
                f"{it.explained} of {it.effects} {effect} follow {cause}; {idle} of {it.causes} {cause} led to none",
            )


def fix_command(case: Case) -> str:
    return command("zombiescope", "fix", *of_recording(case.recording))


def of_recording(recording: str) -> tuple[str, ...]:
    """The words that name it on a command line; none for this machine, now."""
    if not recording:
        return ()
    if recording == SAMPLE:
        return (SAMPLE,)
    if not can_be_shown(recording):
        return "--recording", "RECORDING"
    return "--recording", f"./{recording}" if recording.startswith("-") else recording


def next_commands(case: Case) -> list[str]:
    """What to type next."""
    roots = case.root_causes
    commands = [fix_command(case)] * bool(meant(case))
    commands += [command("zombiescope", "explain", finding.sign) for finding in roots or case.problems]
    if not case.recording:  # they show this machine, as it is now
        commands += [finding.next_command for finding in case.problems if finding.next_command]
    return list(dict.fromkeys(commands))


def taken(span: Span) -> str:
    return f"{lasting(span.seconds)} from {both(span.start, day=True)}"


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e15 and value == int(value) else f"{value:g}"
