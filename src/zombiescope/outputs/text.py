"""The case as a person on call reads it at three in the morning: what it is, why we say so, what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TextIO

from rich.console import Console
from rich.text import Text

from zombiescope import __version__
from zombiescope.core import Case, Finding, Link, Reading, Verdict, cure_for_blindness, harmless, lasting
from zombiescope.core.timeline import Timeline

LIKE = 3  # chains of the same shape that are told in full; the rest are counted
EVIDENCE = 6  # readings shown for one claim; JSON has them all
_STYLES = {"found": "bold red", "clear": "green", "blind": "yellow", "broken": "magenta"}


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    console = Console(file=out, highlight=False, soft_wrap=True)
    for line in _lines(case):
        console.print(line)


def _lines(case: Case) -> Iterator[Text]:
    taken = f"{lasting(case.span.seconds)} from {_clock(case.span.start, day=True)}"
    yield _text(
        f"zombiescope {__version__} · {case.node or 'unknown node'} · Linux {case.kernel or '?'} · {taken}", "dim"
    )
    yield _headline(case)
    for setting in case.settings:
        yield _text(f"  with {setting}", "yellow")
    yield from _chains(case)
    yield from _riddles(case)
    yield from _consistency(case)
    yield from _verdicts(case)
    yield from _next(case)


def _headline(case: Case) -> Text:
    roots = case.root_causes()
    riddles = [it.finding for it in case.unexplained if it.finding not in roots]
    told = [", ".join(f"{it.sign} of {it.subject}" for it in group[:LIKE]) for group in (roots, riddles)]
    if case.findings:
        unexplained = f"{'; ' if roots else ''}unexplained: {told[1]}" if riddles else ""
        return _text(f"FOUND  {told[0]}{unexplained}", "bold red")
    unseen = [verdict for verdict in case.verdicts if verdict.state in ("blind", "broken")]
    if unseen:
        return _text(
            f"CANNOT TELL  nothing found, but {len(unseen)} of {len(case.verdicts)} signs could not be seen",
            "bold yellow",
        )
    return _text(f"CLEAR  all {len(case.verdicts)} signs looked and found nothing", "bold green")


def _chains(case: Case) -> Iterator[Text]:
    told: dict[tuple[str, ...], int] = {}
    for chain in case.chains():
        shape = tuple(finding.sign for finding in chain)
        told[shape] = told.get(shape, 0) + 1
        if told[shape] > LIKE:
            continue
        yield Text()
        for place, finding in enumerate(chain):
            if place:
                yield from _link(case.causes_of(finding))
            yield from _finding(finding)
    for shape, times in told.items():
        if times > LIKE:
            yield _text(f"… and {times - LIKE} more like it: {' → '.join(shape)}", "dim")


def _finding(finding: Finding) -> Iterator[Text]:
    yield Text.assemble((finding.sign, "bold"), "  ", (harmless(finding.subject), "cyan"), "  ", harmless(finding.says))
    yield from _evidence(finding.evidence)


def _link(links: list[Link]) -> Iterator[Text]:
    for ground in links[0].grounds:
        yield Text.assemble("  ↓ ", (ground.kind, "bold"), f": {harmless(ground.says)}")
        yield from _evidence(ground.evidence)
    for rival in links[1:]:
        kinds = ", ".join(ground.kind for ground in rival.grounds)
        yield _text(f"  ↓ rival: {rival.cause.sign} {rival.cause.subject} ({kinds})", "dim")


def _evidence(readings: tuple[Reading, ...]) -> Iterator[Text]:
    for reading in readings[:EVIDENCE]:
        quoted = f"  «{' '.join(reading.text.split())}»" if reading.text else ""
        yield _text(
            f"      {_clock(reading.at)}  {reading.what} {_number(reading.value)}  {reading.source}{quoted}", "dim"
        )
    if len(readings) > EVIDENCE:
        yield _text(f"      … {len(readings) - EVIDENCE} more readings", "dim")


def _riddles(case: Case) -> Iterator[Text]:
    for riddle in case.unexplained[:LIKE]:
        yield Text()
        yield _text(f"unexplained: {riddle.finding.sign} {riddle.finding.subject}", "bold yellow")
        for candidate in riddle.candidates:
            yield _text(f"  not by {candidate.law}: {candidate.why_not}")
    if len(case.unexplained) > LIKE:
        yield _text(f"… and {len(case.unexplained) - LIKE} more unexplained", "dim")


def _consistency(case: Case) -> Iterator[Text]:
    counted = [tally for tally in case.tallies if tally.effects > 1 or tally.causes > 1]
    if counted:
        yield Text()
    for tally in counted:
        cause, _, effect = tally.law.partition("_to_")
        idle = tally.causes - tally.led
        yield _text(
            f"{tally.explained} of {tally.effects} {effect} follow {cause}; "
            f"{idle} of {tally.causes} {cause} led to none"
        )


def _verdicts(case: Case) -> Iterator[Text]:
    for state in ("blind", "broken", "clear"):
        verdicts = [verdict for verdict in case.verdicts if verdict.state == state]
        if verdicts:
            yield Text()
        for verdict in verdicts:
            yield Text.assemble((f"{state:<6}", _STYLES[state]), " ", harmless(verdict.sign), _because(verdict))
            cure = cure_for_blindness(verdict.says) if state in ("blind", "broken") else ""
            if cure:
                yield _text(f"         to see it: {cure}", "yellow")


def _because(verdict: Verdict) -> str:
    return f": {harmless(verdict.says)}" if verdict.says else ""


def _next(case: Case) -> Iterator[Text]:
    commands = [f"zombiescope fix {plan.name}" for plan in case.plans]
    commands += [f"zombiescope explain {finding.sign}" for finding in case.root_causes() or case.findings]
    if any(finding.sign == "zombie_cgroups" for finding in case.findings):
        commands.append("zombiescope census --names")
    if commands:
        yield Text()
        yield _text("next:", "bold")
    for command in dict.fromkeys(commands):
        yield _text(f"  {command}")


def _clock(at: float, *, day: bool = False) -> str:
    if not math.isfinite(at) or not 0 <= at < 4e9:  # a recording may claim any time
        return "??:??:??"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC" if day else "%H:%M:%S")


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e15 and value == int(value) else f"{value:g}"


def _text(words: str, style: str = "") -> Text:
    """Never markup: what the machine said is shown, not obeyed."""
    return Text(harmless(words, most=1000), style)
