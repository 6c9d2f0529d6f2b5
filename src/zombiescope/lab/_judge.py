"""Judge a diagnosis: compare what `diagnose --format json` said with what really happened."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zombiescope.lab._scenario import Truth

# From best to worst. A control can only be "right", "not sure" or "wrong accusation".
OUTCOMES = ("right", "in the chain", "wrong accusation", "unexplained", "not sure", "blind", "missed")
# It accuses nobody and says that it does not know: no cause was found, a cost was not measured, or it could not look.
UNSURE = ("unexplained", "not sure", "blind")

# A core of which an innocent load has its share is not full of the kernel's work: there it is no link of the chain.
OF_A_CORE_ALONE = ("saturated_core",)
# What only the hypervisor can do: no scenario makes it, and if it happens during one it is true.
OF_THE_MACHINE = ("stolen_cpu",)


@dataclass(frozen=True, slots=True)
class Judgement:
    outcome: str  # one of OUTCOMES
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.why}" if self.why else self.outcome

    @property
    def right(self) -> bool:
        return self.outcome == "right"

    @property
    def unsure(self) -> bool:
        return self.outcome in UNSURE


def judge(truth: Truth, told: Mapping[str, Any], *, beside: str = "") -> Judgement:
    """The first root cause must be true, the chain of each true one complete, and nobody else accused.

    Whoever is accused is innocent unless the truth names him. `beside` is a pattern of subjects that only worked beside
    the fault.
    """
    accused = [(it["sign"], it["subject"]) for it in told["root_causes"] if it["sign"] not in OF_THE_MACHINE]
    findings = told["findings"]
    innocent = [it for it in findings if it["sign"] in truth.innocent and it.get("accused", True)]
    innocent += [it for link in told["links"] if (it := findings[link["cause"]])["sign"] in truth.harmless]
    innocent += [it for it in told["root_causes"] if beside and re.fullmatch(beside, it["subject"], re.DOTALL)]
    if truth.root and not truth.noted:
        innocent += [{"sign": sign, "subject": who} for sign, who in accused if not truth.allows(sign, who)]
    if innocent:
        return Judgement("wrong accusation", f"{innocent[0]['sign']} of {innocent[0]['subject']}")
    if not truth.root:
        return _control(accused, told)
    if truth.noted:
        return _noted(truth, accused, told)
    faults = (truth, *truth.also)
    if beside:
        faults = tuple(_beside(it, told) for it in faults)
    first = bool(accused) and any(_is(fault, *accused[0]) for fault in faults)
    return max((_one(fault, first, accused, told) for fault in faults), key=lambda it: OUTCOMES.index(it.outcome))


def _beside(truth: Truth, told: Mapping[str, Any]) -> Truth:
    """What is left of a chain where a load has its share of each core; what was found all the same belongs into it."""
    found = {it["sign"] for it in told["findings"]}
    return replace(truth, chain=tuple(it for it in truth.chain if it not in OF_A_CORE_ALONE or it in found))


def _control(accused: Sequence[tuple[str, str]], told: Mapping[str, Any]) -> Judgement:
    if accused:
        return Judgement("wrong accusation", _named(accused))
    unsure = [(it["sign"], it["subject"]) for it in told.get("unsure", ()) if it["sign"] not in OF_THE_MACHINE]
    return Judgement("not sure", _named(unsure)) if unsure else Judgement("right")


def _noted(truth: Truth, accused: Sequence[tuple[str, str]], told: Mapping[str, Any]) -> Judgement:
    if accused:
        return Judgement("wrong accusation", _named(accused))
    if any(_is(truth, it["sign"], it["subject"]) for it in told["noted"]):
        return Judgement("right")
    return Judgement("missed", f"{truth.root} is not noted")


def _one(truth: Truth, first: bool, accused: Sequence[tuple[str, str]], told: Mapping[str, Any]) -> Judgement:
    """The outcome for one fault; `first`: the first root cause named is one of the true faults."""
    named = any(_is(truth, *it) for it in accused)
    if named and first:
        whole = any(_is_chain_of(truth, chain) for chain in told["chains"])
        return Judgement("right") if whole else Judgement("in the chain", f"chain incomplete: {_longest(told)}")
    stages = [it for chain in told["chains"] if len(chain) > 1 for it in chain]
    if named or any(_is(truth, it["sign"], it["subject"]) for it in stages):
        return Judgement("in the chain", f"first accused: {_named(accused[:1])}")
    riddles = [told["findings"][it["finding"]] for it in told["unexplained"]]
    if any(_is(truth, it["sign"], it["subject"]) for it in riddles):
        as_it_is = truth.unexplained and not accused
        return Judgement("right") if as_it_is else Judgement("unexplained", _named(accused))
    if accused and not first:
        return Judgement("wrong accusation", _named(accused))
    if any(_is(truth, it["sign"], it["subject"]) for it in told.get("unsure", ())):
        return Judgement("not sure", f"what {truth.root} costs was not measured")
    state = next((it for it in told["verdicts"] if it["sign"] == truth.root), None)
    if state is not None and state["state"] == "blind":
        return Judgement("blind", state["says"])
    return Judgement("missed", f"{truth.root} is {state['state'] if state else 'not known'}")


def _is(truth: Truth, sign: str, subject: str) -> bool:
    return sign == truth.root and truth.names(subject)


def _is_chain_of(truth: Truth, chain: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the chain begins with this root cause and holds all of its expected signs."""
    signs = [it["sign"] for it in chain]
    return _is(truth, signs[0], chain[0]["subject"]) and _in_order(truth.chain, signs)


def _in_order(wanted: Sequence[str], chain: Sequence[str]) -> bool:
    """Whether the wanted signs are in the chain in this order; others may be between them."""
    place = iter(chain)
    return all(sign in place for sign in wanted)


def _named(accused: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{sign} of {subject}" for sign, subject in accused)


def _longest(told: Mapping[str, Any]) -> str:
    return " → ".join(it["sign"] for it in told["chains"][0]) if told["chains"] else "no chain"
