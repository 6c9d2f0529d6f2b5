"""The case as a person on call reads it at three in the morning: one screen, the answer first.

With `-v` the evidence follows: every ground and reading, other possible causes, what each check saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from zombiescope import __version__
from zombiescope.core import Case, Finding, Verdict, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.outputs import _evidence
from zombiescope.outputs._aside import asides, in_one_line
from zombiescope.outputs._lines import Line, width_of, wrapped, written
from zombiescope.outputs._story import (
    NAMED,
    NOT_SURE,
    OK,
    PROBLEM,
    Telling,
    ground_words,
    headline,
    sentence,
    strongest,
    taken,
    tellings,
    unseen,
)
from zombiescope.outputs._subjects import in_words
from zombiescope.outputs._summary import commands, no_cause, rows
from zombiescope.outputs._times import local, utc

WIDTH = 100  # where the output is no terminal
AGAIN = 3  # chains alike that get a line each; the rest are counted
LINES = 2  # of a stage: a longer sentence is cut, and is whole with -v
_LABEL = 9  # characters before a row's answer
_STYLES = {PROBLEM: "bold red", OK: "bold green", NOT_SURE: "bold yellow"}
_ANSWERS = {"supported": "red", "refuted": "green", "cannot tell": "yellow"}
Lines = Iterator[Line]


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    _print(case, out, evidence=False)


def write_evidence(case: Case, timeline: Timeline, out: TextIO) -> None:
    _print(case, out, evidence=True)


def _print(case: Case, out: TextIO, *, evidence: bool) -> None:
    written(_lines(case, width_of(out, WIDTH), evidence), out)


def _lines(case: Case, width: int, evidence: bool) -> Lines:
    node, kernel = harmless(case.node, most=64) or "unknown node", harmless(case.kernel, most=64) or "?"
    where = f"{node} · Linux {kernel} · {taken(case.span)}"
    yield from wrapped(f"zombiescope {__version__} · {where}", width, style="dim")
    for setting in case.settings:
        yield from wrapped(f"with {setting}", width, first="  ", style="yellow")
    yield from _answer(case, width)
    for telling in tellings(case):
        if len(telling.chain) > 1:
            yield from _chain(case, telling, width, evidence)
        else:
            yield from _alone(case, telling, width, evidence)
    yield from _puzzles(case, width, evidence)
    yield from _answers(case, width, evidence)
    yield from _asides(case, width, evidence)
    if evidence:
        yield from _evidence.consistently(case, width)
    yield from _checks(case, width, evidence)


def _answer(case: Case, width: int) -> Lines:
    """What is wrong, since when, what it broke, how sure, what to type next."""
    state, says = headline(case)
    if state != PROBLEM:
        yield from wrapped(f"{state}  {says}", width, rest=" " * (len(state) + 2), style=_STYLES[state])
        return
    roots = case.root_causes
    for root in roots[:NAMED]:
        yield from _problem(root, width)
        for label, words in rows(case, root):
            yield from wrapped(words, width, first=f"  {label:<{_LABEL - 2}}", rest=" " * _LABEL, most=LINES)
    if len(roots) > NAMED:
        yield Line(f"… and {len(roots) - NAMED} more root causes", "bold red")
    for puzzle in case.riddles[:NAMED] if not roots else ():
        yield from _problem(puzzle.finding, width)
        if says := puzzle.finding.harm.says:
            yield from wrapped(says.removeprefix("costs "), width, first="  costs  ", most=LINES)
        yield from wrapped(no_cause(puzzle), width, first="  cause  ", most=LINES)
    for place, command in enumerate(commands(case)):
        yield from wrapped(command, width, first="  next   " if not place else " " * _LABEL, style="bold")


def _problem(finding: Finding, width: int) -> Lines:
    words = f"{PROBLEM}  {sentence(finding)}"
    yield from wrapped(words, width, rest=" " * _LABEL, end=f" ({finding.sign})", style=_STYLES[PROBLEM])


def _chain(case: Case, telling: Telling, width: int, evidence: bool) -> Lines:
    """One line a stage with its strongest ground, first cause first; then when it happened again."""
    zone = local(telling.chain[0].span.start).rpartition(" ")[2]
    yield Line()
    if telling.before:  # a branch: its first stages are those of a chain above
        parted = telling.chain[telling.before - 1]
        yield from wrapped(f"Also from {in_words(parted.subject)} ({parted.sign}):", width, most=1, style="bold")
    else:
        yield Line(f"How it happened, first cause first (UTC{f' and {zone}' if zone else ''}):", "bold")
    roots = case.root_causes[:NAMED]
    show = _evidence.Shown()
    for place, finding in enumerate(telling.chain):
        if place < telling.before:
            continue
        if place:
            yield from (_evidence.link(case, finding, width, show) if evidence else _ground(case, finding, width))
        # The answer above has said it already.
        words = in_words(finding.subject) if finding in roots and not evidence else sentence(finding)
        yield from _stage(finding, words, width, 0 if evidence else LINES)
        if evidence:
            yield from show.readings(finding.evidence, width)
    for chain in telling.again[:AGAIN]:
        stages = " → ".join(in_words(it.subject, most=40) for it in chain)
        yield from _stage(chain[-1], f"again: {stages}", width, 0 if evidence else 1)
    if len(telling.again) > AGAIN:
        yield Line(f"  … and {len(telling.again) - AGAIN} more like it", "dim")


def _ground(case: Case, finding: Finding, width: int) -> Lines:
    yield from wrapped(ground_words(strongest(case.causes_of(finding)[0])), width, first="    ↓ ", most=1, style="dim")


def _stage(finding: Finding, words: str, width: int, most: int) -> Lines:
    here = local(finding.span.start).partition(" ")[0]
    first = f"  {utc(finding.span.start)}{f' {here}' if here else ''}  "
    yield from wrapped(words, width, first=first, end=f" ({finding.sign})", most=most)


def _alone(case: Case, telling: Telling, width: int, evidence: bool) -> Lines:
    """A finding that nothing is joined to. Without -v the answer, or the line about its cause, has said it."""
    again: Sequence[tuple[Finding, ...]] = telling.again
    if evidence:
        yield Line()
        yield from _stage(telling.chain[0], sentence(telling.chain[0]), width, 0)
        yield from _evidence.Shown().readings(telling.chain[0].evidence, width)
    for chain in again[:AGAIN]:
        yield from _stage(chain[0], f"again: {sentence(chain[0])}", width, 0 if evidence else LINES)
    if len(again) > AGAIN:
        yield Line(f"  … and {len(again) - AGAIN} more like it ({telling.chain[0].sign})", "dim")


def _puzzles(case: Case, width: int, evidence: bool) -> Lines:
    """Findings without a cause, beside those that have one."""
    roots, puzzles = case.root_causes, case.riddles
    for place, puzzle in enumerate(puzzles[: len(puzzles) if evidence else AGAIN]):
        if not place and (roots or evidence):
            yield Line()
        if roots or evidence:
            words = f"{sentence(puzzle.finding)} ({puzzle.finding.sign}): {no_cause(puzzle)}"
            yield from wrapped(words, width, first="  ", most=0 if evidence else LINES, style="yellow")
        if evidence:
            yield from _evidence.candidates(puzzle, width)
    if len(puzzles) > AGAIN and not evidence:
        yield Line(f"  … and {len(puzzles) - AGAIN} more without a cause", "dim")


def _asides(case: Case, width: int, evidence: bool) -> Lines:
    """What accuses nobody, a line each: what is over with its age, what could not be weighed, what harms nobody."""
    for aside in asides(case):
        yield Line()
        yield Line(aside.heading, "bold")
        for finding in aside.findings if evidence else aside.findings[:AGAIN]:
            words = in_one_line(case, aside, finding)
            yield from wrapped(
                words, width, first="  ", rest="    ", end=f" ({finding.sign})", most=0 if evidence else 1
            )
        if len(aside.findings) > AGAIN and not evidence:
            yield Line(f"  … and {len(aside.findings) - AGAIN} more (-v lists them)", "dim")


def _answers(case: Case, width: int, evidence: bool) -> Lines:
    for answer in case.answers:
        if evidence or answer.state != "cannot tell":
            words = f"{answer.question.replace('_', ' ')}? {answer.state}: {answer.says}"
            yield from wrapped(words, width, first="  ", most=0 if evidence else LINES, style=_ANSWERS[answer.state])


def _checks(case: Case, width: int, evidence: bool) -> Lines:
    """What could not be checked and why, then what was checked and is fine."""
    clear = [verdict for verdict in case.verdicts if verdict.state == "clear"]
    if len(clear) == len(case.verdicts) and not evidence:
        return  # the answer has said so
    yield Line()
    yield from (_evidence.unchecked if evidence else _unchecked)(case, width)
    if clear and not evidence:
        yield from wrapped(_in_one_line(clear, width), width, style="green")
    for verdict in clear if evidence else ():
        words = f"OK  {verdict.sign}" + (f": {verdict.says}" if verdict.says else "")
        yield from wrapped(words, width, rest="    ", style="green")


def _unchecked(case: Case, width: int) -> Lines:
    """By what would let us look; reasons that we have no advice for are for -v."""
    advice: dict[tuple[str, str], list[str]] = {}
    for it in unseen(case):
        advice.setdefault((it.state, it.do), []).extend(it.signs)
    for (state, do), signs in advice.items():
        what = "could not look" if state == "blind" else "broken"
        many = "1 check" if len(signs) == 1 else f"{len(signs)} checks"
        words = f"{many} {what}{' (-v says why)' if not do else ''}: {', '.join(signs)}"
        end = f" → {do}" if do else ""
        yield from wrapped(words, width, rest="    ", end=end, most=LINES, style="yellow")


def _in_one_line(clear: Sequence[Verdict], width: int) -> str:
    room, shown = width - len(f"{len(clear)} checks are OK:  and 99 more (-v lists them)"), []
    for verdict in clear:
        room -= len(verdict.sign) + 2
        if room < 0:
            break
        shown.append(verdict.sign)
    rest = f" and {len(clear) - len(shown)} more" if len(shown) < len(clear) else ""
    return f"{len(clear)} checks are OK: {', '.join(shown)}{rest} (-v lists them)"
