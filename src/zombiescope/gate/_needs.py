"""What the rules need to see: a rule names series in NEEDS and signs in SIGNS; the probes that give them are chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType

from zombiescope.members.rooms import healthy


def asked_signs(skip: Collection[str]) -> list[str]:
    """The signs that rules ask about after a soak."""
    return sorted({sign for rule in _rules(skip) for sign in getattr(rule, "SIGNS", ())})


def asked_probes(skip: Collection[str], signs: Mapping[str, ModuleType] | None = None) -> list[str]:
    """The probes that give what the rules need, and what the signs need that they ask about."""
    needs = [need for rule in _rules(skip) for need in getattr(rule, "NEEDS", ())]
    needs += [need for sign in (signs or {}).values() for need in sign.NEEDS]
    whats = {what for need in needs for what in ((need,) if isinstance(need, str) else need)}
    return [name for name, probe in healthy("probes").items() if whats & set(probe.GIVES)]


def _rules(skip: Collection[str]) -> list[ModuleType]:
    return [rule for name, rule in healthy("gate").items() if name not in skip]
