"""A proof as text and as JSON: what must hold after a fix, with the figures before and after."""

from __future__ import annotations

from typing import Any, TextIO

from zombiescope.core import Reading, harmless, lasting
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND
from zombiescope.treatment.prove import CANNOT_TELL, NOT_PROVED, PROVED, Proof

EXIT = {PROVED: CLEAR, NOT_PROVED: FOUND, CANNOT_TELL: BLIND}
_MARKS = {"held": "✓", "failed": "✗", "blind": "?"}


def write_text(proof: Proof, out: TextIO) -> None:
    after = lasting(proof.after.seconds)
    print(f"{proof.state.upper()}: checked for {after} after the fix", file=out)
    for check in proof.checks:
        print(f"  {_MARKS[check.state]} {harmless(check.name)}: {harmless(check.says, most=300)}", file=out)
    if proof.state == PROVED:
        links = [(link, it) for link in proof.case.links for it in link.grounds if it.kind == "experiment"]
        lines = [
            f"  stopped after the fix: {link.cause.sign} → {link.effect.sign}: {harmless(it.says)}"
            for link, it in links
        ]
        for line in dict.fromkeys(lines):  # a core that was saturated several times is one line
            print(line, file=out)


def as_json(proof: Proof) -> dict[str, Any]:
    numbers = {finding: place for place, finding in enumerate(proof.case.findings)}
    return {
        "state": proof.state,
        "cured": [{"sign": it.sign, "subject": harmless(it.subject), "says": harmless(it.says)} for it in proof.cured],
        "before": {"start": proof.before.start, "end": proof.before.end},
        "after": {"start": proof.after.start, "end": proof.after.end},
        "checks": [
            {
                "name": harmless(it.name),
                "state": it.state,
                "says": harmless(it.says, most=1000),
                "before": _reading(it.before),
                "after": _reading(it.after),
            }
            for it in proof.checks
        ],
        "links": [
            {
                "cause": numbers[link.cause],
                "effect": numbers[link.effect],
                "grounds": [{"kind": it.kind, "says": harmless(it.says)} for it in link.grounds],
            }
            for link in proof.case.links
        ],
        "findings": [{"sign": it.sign, "subject": harmless(it.subject)} for it in proof.case.findings],
    }


def _reading(reading: Reading | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    whole = {"what": reading.what, "subject": harmless(reading.subject), "value": reading.value, "at": reading.at}
    return whole | {"source": harmless(reading.source), "text": harmless(reading.text)}
