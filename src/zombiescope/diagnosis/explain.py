"""For a finding that nothing explains: which laws could have, and why each did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType

from zombiescope.core import Candidate, Case, Finding, Unexplained
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.join import ends, in_order
from zombiescope.members.rooms import guarded


def explain(
    case: Case, names: Iterable[str], laws: Mapping[str, ModuleType], timeline: Timeline
) -> tuple[Unexplained, ...]:
    """Every finding without a cause that some law has as its effect; what no law could explain is a root.

    `names` are those of all laws, `laws` those that did not break.
    """
    known = list(names)
    explained = {link.effect for link in case.links}
    found: dict[str, list[Finding]] = {}
    for finding in case.findings:
        found.setdefault(finding.sign, []).append(finding)
    riddles = []
    for finding in case.findings:
        able = [name for name in known if ends(name)[1] == finding.sign]
        if able and finding not in explained:
            candidates = tuple(_candidate(name, laws.get(name), finding, found, case, timeline) for name in able)
            riddles.append(Unexplained(finding=finding, candidates=candidates))
    return tuple(riddles)


def _candidate(
    name: str,
    law: ModuleType | None,
    effect: Finding,
    found: Mapping[str, list[Finding]],
    case: Case,
    timeline: Timeline,
) -> Candidate:
    if law is None:
        return Candidate(law=name, why_not="the law itself is broken", blind=True)
    sign = ends(name)[0]
    causes = found.get(sign, [])
    if not causes and (why := _said(law, "rules_out", effect, timeline)):
        return Candidate(law=name, why_not=why)
    if causes:
        timely = [cause for cause in causes if in_order(cause, effect, within=law.WITHIN, began=case.span.start)]
        if not timely:
            why = f"{sign} was found, but none of {len(causes)} began before it and within reach"
        elif lacking := _said(law, "lacks", effect, timeline):
            return Candidate(law=name, why_not=f"{sign} was found in time, but {lacking}", blind=True)
        else:
            why = f"{sign} was found in time, but nothing beyond timing ties {timely[0].subject} to {effect.subject}"
            return Candidate(law=name, why_not=why, there=True)
        return Candidate(law=name, why_not=why)
    verdict = next((verdict for verdict in case.verdicts if verdict.sign == sign), None)
    if verdict is None:
        return Candidate(law=name, why_not=f"no sign {sign} was asked", blind=True)
    why = f"{sign} is {verdict.state}" + (f": {verdict.says}" if verdict.says else "")
    return Candidate(law=name, why_not=why, blind=verdict.state != "clear")


def _said(law: ModuleType, about: str, effect: Finding, timeline: Timeline) -> str:
    """`lacks`: what the law needed and nobody could see. `rules_out`: by what the effect shows, its cause was another.

    A law need not have either; one that breaks says nothing.
    """
    said = guarded(partial(getattr(law, about), effect, timeline)) if hasattr(law, about) else ""
    return said if isinstance(said, str) else ""
