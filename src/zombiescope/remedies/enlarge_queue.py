"""Say which queue or buffer overflows, what makes it larger, and what empties it faster.

A queue overflows because its reader is slower than its writer. A larger one helps against bursts; against a reader
that is too slow for good only a faster one helps. Most of these belong to a program or to the cloud, so this is
advice.

Safe: nothing is changed.
Does not fix: a program that does not read, or a limit of the instance: ask for a larger type.
References: Documentation/networking/ip-sysctl.rst; listen(2); the cloud's documentation of its allowances.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.drops import drops

CURES = ("lost_packets",)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    advice = {drop.counter: drop.advice for drop in drops()}
    ways = dict.fromkeys(advice[it.what] for it in finding.evidence if it.what in advice)
    steps = (Step(says=harmless(finding.says)), *(Step(says=words) for words in ways))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)
