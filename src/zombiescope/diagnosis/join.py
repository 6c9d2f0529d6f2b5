"""Join causes to effects by one law, under the rules of evidence that hold for every law.

A cause that began after its effect is no cause. Order is never claimed for an effect that was there when the recording
began, nor for two things that began together. Order alone is coincidence: a law must bring another ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from zombiescope.core import Finding, Ground, Link, Tally, lasting
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Timeline


def ends(law: str) -> tuple[str, str]:
    """The signs a law joins: its name says so."""
    cause, _, effect = law.partition("_to_")
    return cause, effect


def join(
    name: str, law: ModuleType, causes: Sequence[Finding], effects: Sequence[Finding], timeline: Timeline
) -> list[Link]:
    links = []
    for effect in effects:
        for cause in causes:
            if not in_order(cause, effect, within=law.WITHIN, began=timeline.span.start):
                continue
            grounds = tuple(law.grounds(cause, effect, timeline))
            if any(ground.kind != "order" for ground in grounds):
                links.append(
                    Link(law=name, cause=cause, effect=effect, grounds=grounds + _order(cause, effect, timeline))
                )
    return links


def in_order(cause: Finding, effect: Finding, *, within: float, began: float) -> bool:
    """True unless the effect began first, or more than `within` seconds after the cause had ended.

    What was there when the recording `began` may have been there for days: it is never too late to be a cause.
    """
    first = cause.span.start <= began + SLACK or cause.span.start - SLACK <= effect.span.start
    return first and effect.span.start <= cause.span.end + within + SLACK


def _order(cause: Finding, effect: Finding, timeline: Timeline) -> tuple[Ground, ...]:
    lag = effect.span.start - cause.span.start
    if lag <= SLACK or effect.span.start <= timeline.span.start + SLACK:
        return ()
    return (
        Ground(kind="order", says=f"began {lasting(lag)} before", evidence=(cause.evidence[0], effect.evidence[0])),
    )


def tally(name: str, links: Sequence[Link], causes: Sequence[Finding], effects: Sequence[Finding]) -> Tally:
    return Tally(
        law=name,
        effects=len(effects),
        explained=len({link.effect for link in links}),
        causes=len(causes),
        led=len({link.cause for link in links}),
    )
