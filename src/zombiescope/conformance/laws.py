"""A law: it joins two signs that exist, never in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.members.contract import why_joins_nothing
from zombiescope.members.rooms import names


def check(name: str, law: ModuleType) -> Iterator[Complaint]:
    yield from parameters(law, "grounds", ["cause", "effect", "timeline"])
    if why := why_joins_nothing(name, names("laws"), names("signs")):
        yield Complaint(says=why, mend="name it CAUSE_to_EFFECT after two signs; laws never circle")
