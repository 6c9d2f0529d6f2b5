"""How a unit's runs ended, as systemd says it beside its count of restarts."""

from __future__ import annotations

from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import Span
from zombiescope.core.timeline import Series

WELL = "success"


def ended(counter: Series) -> tuple[str, str]:
    """How systemd says it last ended: ("exit-code", "1"), from "Result=exit-code, ExecMainStatus=1"."""
    told = dict(part.split("=", 1) for part in counter.latest.text.split(", ") if "=" in part)
    return told.get("Result", ""), told.get("ExecMainStatus", "")


def crashes(counter: Series, span: Span) -> Harm:
    """What its restarts cost by themselves: a run that fails is broken, one that ends well is finished work."""
    result, _ = ended(counter)
    if not result:
        return Harm(unknown=("broken",))
    if result == WELL:
        return Harm()
    within = counter.between(span)
    times = max(within.latest.value - within.first.value, 1.0) if len(within) else 1.0
    return Harm(parts=(Part(figure="broken", kind="crashes", who=counter.subject, amount=times, span=span),))
