"""A remedy: it cures signs that exist."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.members.contract import why_names_nothing
from zombiescope.members.rooms import names


def check(name: str, remedy: ModuleType) -> Iterator[Complaint]:  # noqa: ARG001
    yield from parameters(remedy, "plan", ["finding", "case", "timeline"])
    if why := why_names_nothing("remedies", remedy, names("signs")):
        yield Complaint(says=why, mend="see `zombiescope explain` for the signs there are", about="CURES")
