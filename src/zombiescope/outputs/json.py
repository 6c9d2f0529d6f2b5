"""The case as JSON, for programs. The shape is a promise; the same case always gives the same bytes."""

from __future__ import annotations

import json
import math
from typing import Any, TextIO

from zombiescope import __version__
from zombiescope.core import Case, Finding, Plan, Reading, Step, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.outputs._offers import kind, kind_of, offers, pasted

SCHEMA = 1
WHOM = 3  # victims by name; `says` counts the rest


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    json.dump(shape(case), out, indent=1, allow_nan=False)
    out.write("\n")


def shape(case: Case) -> dict[str, Any]:
    index = {finding: number for number, finding in enumerate(case.findings)}
    aside = case.set_aside
    return {
        "zombiescope": __version__,
        "schema": SCHEMA,
        "node": _text(case.node),
        "kernel": _text(case.kernel),
        "span": {"start": case.span.start, "end": case.span.end},
        "root_causes": [
            _brief(it) | {"harm": _harm(case.cost_of(it)), "unchecked": _unchecked(case, it)} for it in case.root_causes
        ],
        "past": [_brief(it) | {"ago_seconds": round(case.span.end - it.span.end, 3)} for it in case.past],
        "noted": [_brief(finding) for finding in case.noted],
        "unsure": [_brief(finding) for finding in case.unsure],
        "own": [_brief(finding) for finding in case.own],
        "chains": [[_brief(finding) for finding in chain] for chain in case.chains],
        "findings": [
            _brief(finding)
            | {
                "span": {"start": finding.span.start, "end": finding.span.end},
                "evidence": _readings(finding.evidence),
                "harm": _harm(finding.harm) | {"evidence": _readings(finding.harm.evidence)},
                "accused": finding not in aside,
            }
            for finding in case.findings
        ],
        "links": [
            {
                "law": link.law,
                "cause": index[link.cause],
                "effect": index[link.effect],
                "grounds": [
                    {"kind": ground.kind, "says": _text(ground.says), "evidence": _readings(ground.evidence)}
                    for ground in link.grounds
                ],
            }
            for link in case.links
        ],
        "unexplained": [
            {
                "finding": index[riddle.finding],
                "candidates": [{"law": it.law, "why_not": _text(it.why_not)} for it in riddle.candidates],
            }
            for riddle in case.unexplained
        ],
        "consistency": [
            {"law": it.law, "effects": it.effects, "explained": it.explained, "causes": it.causes, "led": it.led}
            for it in case.tallies
        ],
        "answers": [
            {"question": it.question, "state": it.state, "says": _text(it.says), "evidence": _readings(it.evidence)}
            for it in case.answers
        ],
        "verdicts": [
            {"sign": it.sign, "state": it.state, "says": _text(it.says), "evidence": _readings(it.evidence)}
            for it in case.verdicts
        ],
        "remedies": [_remedy(plan) for plan in offers(case)],
        "settings": list(case.settings),
    }


def _brief(finding: Finding) -> dict[str, Any]:
    brief = {"sign": finding.sign, "subject": _text(finding.subject), "says": _text(finding.says)}
    return brief | ({"culprit": _text(finding.culprit)} if finding.culprit else {})


def _unchecked(case: Case, root: Finding) -> list[str]:
    """Other known causes of what followed from it, which could not be looked for."""
    return case.unchecked_for(*(it for chain in case.chains if chain[0] == root for it in chain))


def _harm(harm: Harm) -> dict[str, Any]:
    """Figures that nobody measured are null, and named; `soon_seconds` is null too for what does not grow."""
    return {
        "broken": dict(harm.broken),
        "waited_cores": harm.waited_cores,
        "burnt_cores": harm.burnt_cores,
        "held_bytes": None if harm.held_bytes is None else round(harm.held_bytes),
        "soon_seconds": None if harm.soon_seconds is None else round(harm.soon_seconds, 1),
        "whom": [_text(who) for who in harm.whom[:WHOM]],
        "unknown": list(harm.unknown),
        "says": _text(harm.says),
    }


def _remedy(plan: Plan) -> dict[str, Any]:
    """With all its steps; `command` is for pasting, without what would disrupt if the rest does not."""
    commands = [pasted(step) for step in plan.steps if step.argv and plan.risk_of(step) == plan.risk]
    return {
        "name": plan.name,
        "cures": plan.cures.sign,
        "subject": _text(plan.cures.subject),
        "risk": kind(plan),
        "command": " && ".join(commands) if all(commands) else "",
        "steps": [_step(plan, step) for step in plan.steps],
    }


def _step(plan: Plan, step: Step) -> dict[str, Any]:
    """Its words are for people, its command for programs: whole, and nothing in it changed."""
    words = {"argv": list(step.argv), "stdin": step.stdin}
    return {"says": _text(step.says), **words, "risk": kind_of(plan, step)}


def _readings(readings: tuple[Reading, ...]) -> list[dict[str, Any]]:
    return [
        {
            "what": it.what,
            "subject": _text(it.subject),
            "value": it.value if math.isfinite(it.value) else None,  # JSON has no NaN
            "at": it.at,
            "source": _text(it.source),
            "text": _text(it.text),
        }
        for it in readings
    ]


def _text(text: str) -> str:
    """Bytes that are not UTF-8 would come out as lone surrogates, which many JSON readers refuse."""
    return harmless(text)
