"""The case as a person on call reads it at three in the morning: what it is, why we say so, what to do next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from zombiescope import __version__
from zombiescope.core import Case, Finding, Reading, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.blind_causes import what_to_do
from zombiescope.outputs._story import (
    RIVALS,
    Telling,
    clock,
    consistency,
    headline,
    next_commands,
    number,
    taken,
    tellings,
    unseen,
)

AGAIN = 3  # chains alike that get a line each; the rest are counted
EVIDENCE = 3  # readings shown for one claim; JSON and HTML have them all
FIGURES = 6  # clear signs that each say what they saw; more are named only, a terminal has 40 rows
WIDTH = 100
_STYLES = {"FOUND": "bold red", "CLEAR": "bold green", "CANNOT TELL": "bold yellow"}
_ANSWERS = {"supported": "red", "refuted": "green", "cannot tell": "yellow"}


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    console = Console(file=out, highlight=False, soft_wrap=True)
    for line in _lines(case):
        console.print(line)


def _lines(case: Case) -> Iterator[Text]:
    where = f"{case.node or 'unknown node'} · Linux {case.kernel or '?'} · {taken(case.span)}"
    yield _text(f"zombiescope {__version__} · {where}", "dim")
    state, says = headline(case)
    yield _text(f"{state}  {says}", _STYLES[state])
    for setting in case.settings:
        yield _text(f"  with {setting}", "yellow")
    for telling in tellings(case):
        yield from _telling(case, telling)
    yield from _riddles(case)
    yield from _consistency(case)
    yield from _answers(case)
    yield from _unseen(case)
    yield from _clear(case)
    yield from _next(case)


def _telling(case: Case, telling: Telling) -> Iterator[Text]:
    """The whole story in one line, then stage by stage; then when it happened again."""
    yield Text()
    if len(telling.chain) > 1:
        yield from _story(telling.chain)
    for place, finding in enumerate(telling.chain):
        if place < telling.before:
            continue
        if place:
            yield from _link(case, finding)
        yield from _finding(finding)
    for chain in telling.again[:AGAIN]:
        words = chain[0].says if len(telling.chain) == 1 else _arrows(chain)
        whose = f"{chain[0].sign}  {chain[0].subject}  " if len(telling.chain) == 1 else ""
        yield _text(f"again {clock(chain[0].span.start)}  {whose}{words}")
    if len(telling.again) > AGAIN:
        signs = " → ".join(finding.sign for finding in telling.chain)
        yield _text(f"… and {len(telling.again) - AGAIN} more like it: {signs}", "dim")


def _story(chain: Sequence[Finding]) -> Iterator[Text]:
    """Broken before an arrow, so that a line is never wider than a terminal unless a single name is."""
    line = ""
    for place, finding in enumerate(chain):
        stage = ("→ " if place else "") + harmless(f"{finding.sign} {finding.subject}")
        if line and len(line) + 1 + len(stage) > WIDTH:
            yield _text(line, "bold")
            line = "    "
        line += (" " if line.strip() else "") + stage
    yield _text(line, "bold")
    yield Text()


def _arrows(chain: Sequence[Finding]) -> str:
    return " → ".join(harmless(f"{finding.sign} {finding.subject}", most=80) for finding in chain)


def _finding(finding: Finding) -> Iterator[Text]:
    yield Text.assemble((finding.sign, "bold"), "  ", (harmless(finding.subject), "cyan"), "  ", harmless(finding.says))
    yield from _evidence(finding.evidence)


def _link(case: Case, finding: Finding) -> Iterator[Text]:
    first, *others = case.causes_of(finding)
    told = {*first.cause.evidence[:EVIDENCE], *first.effect.evidence[:EVIDENCE]}
    for ground in first.grounds:
        yield Text.assemble("  ↓ ", (ground.kind, "bold"), f": {harmless(ground.says)}")
        # What stands with the cause or the effect already is not shown a second time.
        yield from _evidence([reading for reading in ground.evidence if reading not in told])
    rivals = case.rivals_of(finding)
    for earlier in (link for link in others if link not in rivals):
        for ground in (it for it in earlier.grounds if it.kind != "order"):
            yield _text(f"  ↓ also {ground.kind}, straight from {earlier.cause.sign}: {ground.says}")
    for rival in rivals[:RIVALS]:
        kinds = ", ".join(ground.kind for ground in rival.grounds)
        yield _text(f"  ↓ rival: {rival.cause.sign} {rival.cause.subject} ({kinds})", "dim")
    if len(rivals) > RIVALS:
        yield _text(f"  ↓ … and {len(rivals) - RIVALS} more rivals", "dim")


def _evidence(readings: Sequence[Reading]) -> Iterator[Text]:
    for reading in readings[:EVIDENCE]:
        quoted = f"  «{' '.join(reading.text.split())}»" if reading.text else ""
        yield _text(
            f"      {clock(reading.at)}  {reading.what} {number(reading.value)}  {reading.source}{quoted}", "dim"
        )
    if len(readings) > EVIDENCE:
        yield _text(f"      … {len(readings) - EVIDENCE} more readings", "dim")


def _riddles(case: Case) -> Iterator[Text]:
    for riddle in case.unexplained[:AGAIN]:
        yield Text()
        yield _text(f"unexplained: {riddle.finding.sign} {riddle.finding.subject}", "bold yellow")
        for candidate in riddle.candidates:
            yield _text(f"  not by {candidate.law}: {candidate.why_not}")
            if cure := what_to_do(candidate.why_not):
                yield _text(f"      to see it: {cure}", "yellow")
    if len(case.unexplained) > AGAIN:
        yield _text(f"… and {len(case.unexplained) - AGAIN} more unexplained", "dim")


def _consistency(case: Case) -> Iterator[Text]:
    for place, (_, words) in enumerate(consistency(case)):
        if not place:
            yield Text()
        yield _text(words)


def _answers(case: Case) -> Iterator[Text]:
    for place, answer in enumerate(case.answers):
        if not place:
            yield Text()
        yield Text.assemble(
            (f"{answer.state}: ", _ANSWERS[answer.state]),
            (harmless(answer.question), "bold"),
            f"  {harmless(answer.says)}",
        )


def _unseen(case: Case) -> Iterator[Text]:
    for place, it in enumerate(unseen(case)):
        if not place:
            yield Text()
        because = f": {harmless(it.says)}" if it.says else ""
        style = "yellow" if it.state == "blind" else "magenta"
        yield Text.assemble((f"{it.state:<6}", style), " ", harmless(", ".join(it.signs)), because)
        if it.cure:
            yield _text(f"         to see it: {it.cure}", "yellow")


def _clear(case: Case) -> Iterator[Text]:
    """With nothing found, what each sign saw is the report; else names are enough: JSON and HTML have the figures."""
    clear = [verdict for verdict in case.verdicts if verdict.state == "clear"]
    if clear:
        yield Text()
    if case.findings and len(clear) > FIGURES:
        names = textwrap.wrap(", ".join(verdict.sign for verdict in clear), WIDTH - 7, break_on_hyphens=False)
        for place, line in enumerate(names):
            yield Text.assemble(("clear " if not place else "      ", "green"), " ", harmless(line))
        return
    for verdict in clear:
        saw = f": {harmless(verdict.says)}" if verdict.says else ""
        yield Text.assemble(("clear ", "green"), " ", harmless(verdict.sign), saw)


def _next(case: Case) -> Iterator[Text]:
    for place, command in enumerate(next_commands(case)):
        if not place:
            yield Text()
            yield _text("next:", "bold")
        yield _text(f"  {command}")


def _text(words: str, style: str = "") -> Text:
    """Never markup: what the machine said is shown, not obeyed."""
    return Text(harmless(words, most=1000), style)
