"""PID 1 starts every unit anew that keeps crashing, and visits the others for each."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 30.0  # seconds: a unit that crashes is started again within that
OTHER_WORK = "init_sampled_seconds"  # evidence of busy_init: what its stacks show most of, where that is known
OFTEN = 1.0  # restarts a second: with fewer PID 1 has time for each


def rules_out(effect: Finding, timeline: Timeline) -> str:
    """A PID 1 that is too busy to answer leaves units unseen; its stacks may show that it starts none."""
    shown = any(it.what == OTHER_WORK for it in effect.evidence)
    return "its stacks show that it reads mounts or cgroups' files, and starts no units" if shown else ""


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    rate = timeline.rate("unit_restarts_total", cause.subject).between(effect.span)
    if len(rate) and rate.mean() >= OFTEN:
        says = f"{rate.mean():.1f} restarts a second"
        yield Ground(kind="dose", says=says, evidence=(rate.latest, effect.evidence[0]))
