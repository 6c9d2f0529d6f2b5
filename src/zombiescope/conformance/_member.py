"""All checks of one member that run it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from zombiescope.conformance._complaint import Complaint
from zombiescope.core import Unparsable, Unreadable, UserError
from zombiescope.members.contract import why_unusable
from zombiescope.members.rooms import Broken, guarded, member


def complaints(room: str, name: str) -> Iterator[Complaint]:
    """What is wrong with a member that is loaded, or why it cannot be."""
    found = member(room, name)
    if isinstance(found, Broken):
        said = [Complaint(says=found.why, mend="mend it: until then every diagnosis calls it broken")]
    elif why := why_unusable(room, found):
        said = [Complaint(says=why, mend="a member has what its room needs")]
    else:
        said = _said(room, name, found)
    for complaint in said:
        yield replace(complaint, member=f"{room}/{name}")


def _said(room: str, name: str, found: ModuleType) -> list[Complaint]:
    check = import_module(f"{__package__}.{room}").check
    try:
        said: list[Complaint] | Broken = guarded(lambda: list(check(name, found)))
    except (Unreadable, Unparsable, UserError) as error:
        said = Broken(str(error))
    return [Complaint(says=f"it fails: {said.why}", mend="run it by hand")] if isinstance(said, Broken) else said
