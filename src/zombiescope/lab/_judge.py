"""Whether a diagnosis told the truth: what `diagnose --format json` said, against what really happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zombiescope.lab._scenario import Truth

# From best to worst. A control has only the first and the third.
OUTCOMES = ("right", "in the chain", "wrong accusation", "unexplained", "blind", "missed")


@dataclass(frozen=True, slots=True)
class Judgement:
    outcome: str  # one of OUTCOMES
    why: str = ""

    @property
    def right(self) -> bool:
        return self.outcome == "right"


def judge(truth: Truth, told: Mapping[str, Any]) -> Judgement:
    """The first root cause must be the true one, its chain whole, and nobody accused who is innocent."""
    accused = [(it["sign"], it["subject"]) for it in told["root_causes"]]
    innocent = [it for it in told["findings"] if it["sign"] in truth.silent]
    if innocent:
        return Judgement("wrong accusation", f"{innocent[0]['sign']} of {innocent[0]['subject']}")
    if not truth.root:
        return Judgement("wrong accusation", _named(accused)) if accused else Judgement("right")
    true = [(sign, subject) for sign, subject in accused if sign == truth.root and truth.names(subject)]
    if true and accused[0] in true:
        whole = any(_in_order(truth.chain, [it["sign"] for it in chain]) for chain in told["chains"])
        return Judgement("right") if whole else Judgement("in the chain", f"not as a whole: {_longest(told)}")
    stages = [it for chain in told["chains"] if len(chain) > 1 for it in chain]
    if true or any(it["sign"] == truth.root and truth.names(it["subject"]) for it in stages):
        return Judgement("in the chain", f"first accused: {_named(accused[:1])}")
    riddles = [told["findings"][it["finding"]] for it in told["unexplained"]]
    if any(it["sign"] == truth.root and truth.names(it["subject"]) for it in riddles):
        as_it_is = truth.unexplained and not accused
        return Judgement("right") if as_it_is else Judgement("unexplained", _named(accused))
    if accused:
        return Judgement("wrong accusation", _named(accused))
    state = next((it for it in told["verdicts"] if it["sign"] == truth.root), None)
    if state is not None and state["state"] == "blind":
        return Judgement("blind", state["says"])
    return Judgement("missed", f"{truth.root} is {state['state'] if state else 'not known'}")


def _in_order(wanted: Sequence[str], chain: Sequence[str]) -> bool:
    """Whether the wanted signs stand in a chain in this order; others may stand between them."""
    place = iter(chain)
    return all(sign in place for sign in wanted)


def _named(accused: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{sign} of {subject}" for sign, subject in accused)


def _longest(told: Mapping[str, Any]) -> str:
    return " → ".join(it["sign"] for it in told["chains"][0]) if told["chains"] else "no chain"
