"""One look at the last minutes of a recording: who harms whom now, and the figures. Runs in the examiner alone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from zombiescope.agent.figures import figures
from zombiescope.agent.pushing import bodies
from zombiescope.agent.severity import severity
from zombiescope.core import Case, Finding, Span, harmless
from zombiescope.diagnosis.examine import examine
from zombiescope.diagnosis.unattended import why_watched
from zombiescope.outputs._offers import offers
from zombiescope.outputs.json import shape
from zombiescope.recorder.replay import opened

MOST_FINDINGS = 100  # that become events: a node with more has one cause to find
MOST_EVIDENCE = 4  # readings of each; the case has all
MOST_CASE = 4 << 20  # bytes of the whole case: what is larger is left out
STALE = 30.0  # seconds: a recorder flushes every second, so an older end means that it is stopped, or starved
AHEAD = 5.0  # seconds that the recorder's clock may be ahead of ours


def look(
    folder: str, window: float, since: float, push: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], bytes]:
    """As plain data: findings to follow, verdicts, figures, the case as JSON text; and the bodies of a push."""
    recording = opened(folder)
    now = time.time()
    timeline = recording.timeline(Span(now - window, now + AHEAD))
    if timeline.span.end < now - STALE:
        ago = f"{now - timeline.span.end:.0f} s ago" if timeline.span.end else f"more than {window:.0f} s ago"
        return {"stale": f"the last sample of the recorder is from {ago}"}, b""
    case = examine(timeline, node=str(recording.meta.get("node", "")), kernel=str(recording.meta.get("kernel", "")))
    told = shape(case)
    text = json.dumps(told, allow_nan=False)
    counts: dict[str, dict[str, int]] = {}
    for finding in case.findings:
        if finding not in case.past:
            grade = severity(case.cost_of(finding), accused=finding not in case.set_aside)
            by_grade = counts.setdefault(finding.sign, {})
            by_grade[grade] = by_grade.get(grade, 0) + 1
    pushed, body = bodies(timeline, case, push) if push else ({}, b"")
    return {
        "span": [timeline.span.start, timeline.span.end],
        "node": told["node"],
        "findings": followed(case, told),
        "counts": counts,
        "harm_cores": _cores_by_sign(case),
        "states": {it["sign"]: it["state"] for it in told["verdicts"]},
        "figures": figures(timeline, case, since),
        "damage": [harmless(it) for it in recording.damage[:3]],
        "case": text if len(text) <= MOST_CASE else "",
        "push": pushed,
    }, body


def followed(case: Case, told: dict[str, Any]) -> list[dict[str, Any]]:
    """What events are about: each root cause with what follows from it, and each problem without a known cause."""
    roots = case.root_causes
    chains = {chain[0]: chain for chain in reversed(case.chains) if chain[0] in roots}  # the longest comes first
    within = {it for chain in case.chains if chain[0] in chains for it in chain}
    alone = [it for it in case.problems if it not in within]
    plans = [it for it in offers(case) if it.risk == "safe" and not it.advice and not why_watched(it)]
    index = {finding: number for number, finding in enumerate(case.findings)}
    costs = [it["harm"] for it in told["root_causes"]] + [told["findings"][index[it]]["harm"] for it in alone]
    return [
        {
            "sign": it.sign,
            "subject": harmless(it.subject),
            "says": harmless(it.says),
            "root": it in chains,
            "remedy": next((plan.name for plan in plans if plan.cures == it), ""),
            "only_reboot": _only_reboot(case, chains.get(it, (it,))),
            "severity": severity(case.cost_of(it), accused=True),
            # What follows from it goes on as long as it does, or longer.
            "span": [it.span.start, max(one.span.end for one in chains.get(it, (it,)))],
            "harm": {name: value for name, value in harm.items() if name != "evidence"},
            "chain": [
                {"sign": one.sign, "subject": harmless(one.subject), "says": harmless(one.says)}
                for one in chains.get(it, (it,))
            ],
            "evidence": told["findings"][index[it]]["evidence"][:MOST_EVIDENCE],
        }
        for it, harm in list(zip([*roots, *alone], costs, strict=True))[:MOST_FINDINGS]
    ]


def _only_reboot(case: Case, chain: tuple[Finding, ...]) -> bool:
    """Whether something can be done about it or what follows from it, and all of that is a last resort."""
    acts = [plan for plan in case.plans if plan.cures in chain and not plan.advice]
    return bool(acts) and all(plan.last_resort for plan in acts)


def _cores_by_sign(case: Case) -> dict[str, float]:
    """Cores' worth that each kind of root cause costs: waited and burnt. They add up: nothing is counted twice."""
    totals: dict[str, float] = {}
    for finding in case.root_causes:
        harm = case.cost_of(finding)
        totals[finding.sign] = totals.get(finding.sign, 0.0) + (harm.waited_cores or 0.0) + (harm.burnt_cores or 0.0)
    return {sign: round(cores, 4) for sign, cores in totals.items()}
