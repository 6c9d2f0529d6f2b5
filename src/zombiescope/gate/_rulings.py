"""Run every rule that fits the occasion, and collect the results."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from types import ModuleType

from zombiescope.core import Blind, Unparsable, Unreadable
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, Ruling
from zombiescope.members.rooms import Broken, guarded, members


def rulings(image: Image, skip: Collection[str] = (), *, strict: bool = False) -> list[Ruling]:
    """One ruling per rule, in order of names; a rule that is not for this occasion has none."""
    found = []
    for name, rule in members("gate").items():
        if name in skip:
            found.append(Ruling(rule=name, state="skipped", says="skipped by --skip"))
        elif isinstance(rule, Broken):
            found.append(_blind(name, "a bug in zombiescope", rule.why))
        elif getattr(rule, "NEEDS_LIST", False) and image.allowed is None:
            found.append(Ruling(rule=name, state="skipped", says="no allow-list was given: add --allow FILE"))
        elif image.occasion in rule.WHEN:
            found.append(_ruling(name, rule, image, strict))
    return found


def ruled(name: str, said: Iterable[Objection | Blind], saw: str, *, strict: bool = False) -> Ruling:
    """The ruling on some objections and blind spots. With `strict` a note is an error."""
    everything = list(said)
    objections = [replace(it, rule=name) for it in everything if isinstance(it, Objection)]
    if strict:
        objections = [replace(it, level="error") for it in objections]
    unseen = tuple(it for it in everything if isinstance(it, Blind))
    return weighed(Ruling(rule=name, state="pass", says=saw, objections=tuple(objections), unseen=unseen))


def weighed(ruling: Ruling) -> Ruling:
    """The same with its state computed again: an error fails the gate unless it is accepted."""
    closes = any(it.level == "error" and it.accepted is None for it in ruling.objections)
    return replace(ruling, state="fail" if closes else "blind" if ruling.unseen else "pass")


def _ruling(name: str, rule: ModuleType, image: Image, strict: bool) -> Ruling:
    """A rule may say in `unfit(image)` why it does not apply to this image."""
    try:
        said = guarded(partial(_asked, name, rule, image, strict))
    except (Unreadable, Unparsable) as error:
        return _blind(name, error.source, error.why)
    return _blind(name, "a bug in zombiescope", said.why) if isinstance(said, Broken) else said


def _asked(name: str, rule: ModuleType, image: Image, strict: bool) -> Ruling:
    if hasattr(rule, "unfit") and (why := rule.unfit(image)):
        return Ruling(rule=name, state="skipped", says=why)
    return ruled(name, rule.look(image), rule.saw(image), strict=strict)


def _blind(name: str, source: str, why: str) -> Ruling:
    return Ruling(rule=name, state="blind", says=why, unseen=(Blind(what=name, source=source, why=why),))
