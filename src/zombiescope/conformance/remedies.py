"""A remedy: it cures signs that exist, and one that acts says what its commands are, and on which facts it rests."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.core.witness import Witness
from zombiescope.members.contract import why_names_nothing
from zombiescope.members.rooms import healthy, names


def check(name: str, remedy: ModuleType) -> Iterator[Complaint]:  # noqa: ARG001
    yield from parameters(remedy, "plan", ["finding", "case", "timeline"])
    if why := why_names_nothing("remedies", remedy, names("signs")):
        yield Complaint(says=why, mend="see `zombiescope explain` for the signs there are", about="CURES")
    yield from _acts(remedy)
    yield from _rests_on(getattr(remedy, "RESTS_ON", {}))


def _acts(remedy: ModuleType) -> Iterator[Complaint]:
    source = ast.parse(inspect.getsource(remedy))
    if not any(isinstance(it, ast.keyword) and it.arg == "argv" for it in ast.walk(source)):
        return
    mends = {
        "FORMS": "name the form of each command: a step that fits none is neither applied nor undone",
        "RESTS_ON": "name the series that its decision rests on, each with who vouches for it",
    }
    for name, mend in mends.items():
        if not getattr(remedy, name, None):
            yield Complaint(says=f"it makes commands and has no {name}", mend=mend, about="plan")


def _rests_on(facts: Mapping[str, Witness]) -> Iterator[Complaint]:
    """Each is a series, and not trusted more than the probe that gives it."""
    givers = {what: probe for probe in healthy("probes").values() for what in probe.GIVES}
    for what, trusted in facts.items():
        known = getattr(givers.get(what), "WITNESS", None)
        if what not in givers:
            mend = "name series: see docs/probes.md"
            yield Complaint(says=f"it rests on {what}, which no probe gives", mend=mend, about="RESTS_ON")
        elif known is None:
            mend = "give that probe a WITNESS"
            yield Complaint(says=f"nobody says who vouches for {what}", mend=mend, about="RESTS_ON")
        elif trusted is not known and not trusted.may_lie and trusted is not Witness.ABSENCE:
            mend = "trust a series no more than its probe does, or only that it is absent"
            yield Complaint(says=f"for {what} {known.value} vouch, not {trusted.value}", mend=mend, about="RESTS_ON")
