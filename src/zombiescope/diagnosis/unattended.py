"""Whether a plan may be carried out with nobody watching: only where it rests on what no container can choose.

A remedy says on which series its decision rests, and who vouches for each (RESTS_ON). A person reads the evidence
before he applies a plan; an agent with `remediate` on has only this.
"""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.core.model import Plan
from zombiescope.core.witness import Witness
from zombiescope.members.rooms import Broken, member


def why_watched(plan: Plan) -> str:
    """Why a person has to decide about this plan; empty if an agent may carry it out."""
    rests = rests_on(plan.name)
    if not rests:
        return f"{plan.name} does not say on which facts it rests"
    if chosen := sorted({it.value for it in rests.values() if it.may_lie}):
        return f"{plan.name} rests on {' and '.join(chosen)}, which a container can choose"
    if not any(it.what in rests for it in plan.cures.evidence):
        seen = ", ".join(sorted({it.what for it in plan.cures.evidence}))
        return f"what was found rests on {seen} alone, and {plan.name} on {', '.join(rests)}"
    return ""


def rests_on(remedy: str) -> Mapping[str, Witness]:
    found = member("remedies", remedy)
    return {} if isinstance(found, Broken) else getattr(found, "RESTS_ON", {})
