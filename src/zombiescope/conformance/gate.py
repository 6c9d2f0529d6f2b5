"""A rule of the gate: it fits an occasion, and an empty root has nothing to object to and nothing that could pass."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.core import Host
from zombiescope.gate._image import Image
from zombiescope.gate._objection import OCCASIONS
from zombiescope.gate._rulings import rulings
from zombiescope.members.contract import why_names_nothing
from zombiescope.members.rooms import names


def check(name: str, rule: ModuleType) -> Iterator[Complaint]:
    for function in ("look", "saw"):
        yield from parameters(rule, function, ["image"])
    if unknown := set(rule.WHEN) - set(OCCASIONS):
        yield Complaint(says=f"WHEN has {min(unknown)}", mend=f"there are {', '.join(OCCASIONS)}", about="WHEN")
    if why := why_names_nothing("gate", rule, names("signs")):
        yield Complaint(says=why, mend="see `zombiescope explain` for the signs there are", about="SIGNS")
    with tempfile.TemporaryDirectory(prefix="zombiescope-empty-") as folder:
        image = Image(Host(folder, live=False), allowed=())
        for ruling in rulings(image, set(names("gate")) - {name}):
            if ruling.state != "skipped" and (ruling.objections or not ruling.unseen):
                mend = "what could not be seen never passes: yield Blind, or let the door raise Unreadable"
                yield Complaint(says=f"of an empty root it says {ruling.state}", mend=mend, about="look")
