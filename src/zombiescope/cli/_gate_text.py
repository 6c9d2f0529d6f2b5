"""The gate's report for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from zombiescope.cli._gate_report import Report
from zombiescope.gate._objection import Objection, Ruling

_COLOURS = {"fail": "bold red", "blind": "yellow", "note": "cyan", "accepted": "dim", "pass": "green", "skipped": "dim"}
_ORDER = {"fail": 0, "blind": 1, "pass": 2, "skipped": 3}


def write(report: Report, out: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)

    def say(state: str, *words: str) -> None:
        console.print(Text.assemble((f"{state:<9}", _COLOURS[state]), "  ".join(word for word in words if word)))

    console.print(Text.assemble("gate: ", (report.verdict.upper(), _COLOURS[report.verdict]), f"  {report.summary()}"))
    for ruling in sorted(report.rulings, key=lambda it: _ORDER[it.state]):
        for it in ruling.objections:
            say(_word(it), it.rule, it.subject, it.says)
            for line in _below(it):
                console.print(Text(f"{'':11}{line}", "dim"))
        for unseen in ruling.unseen:
            say("blind", ruling.rule, f"{unseen.source}: {unseen.why}")
        if _quiet(ruling):
            say(ruling.state, ruling.rule, ruling.says)


def _word(objection: Objection) -> str:
    return "accepted" if objection.accepted else "fail" if objection.level == "error" else "note"


def _below(objection: Objection) -> Iterator[str]:
    yield objection.where
    if objection.accepted:
        yield f"until {objection.accepted.expires}: {objection.accepted.reason}"
    else:
        yield from (f"fix: {it}" for it in objection.fix)


def _quiet(ruling: Ruling) -> bool:
    """Whether no other line reports it."""
    return not ruling.unseen and not any(it.level == "error" for it in ruling.objections)
