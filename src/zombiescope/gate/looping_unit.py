"""A unit on the machine restarts in a loop.

Why it matters: an image whose services restart in a loop before any job runs will do so on every node made from it. A
    supervisor may restart a container inside a unit that stays active: cgroups that come and go show that too.
Passes: a machine on which nothing restarts. Without --soak only restarts within the next two seconds are seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Case
from zombiescope.core.commands import command, shown_by
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, seen_by, systemctl

WHEN = ("look", "soak")
SIGNS = ("crash_looping_unit", "cgroup_churn")
NEEDS = ("container_info",)  # whose cgroups come and go


def look(image: Image) -> Iterator[Objection | Blind]:
    if image.case is not None:
        yield from _soaked(image.case)
        return
    for error in image.survey.unseen:
        yield Blind(what="unit_restarts_total", source=error.source, why=error.why)
    for row in image.survey.rows:
        if row.restarting:
            yield Objection(
                subject=f"unit:{row.unit}",
                says=f"restarts in a loop, {row.restarts:,} restarts so far; {row.judged.says}",
                where=seen_by("status", row.unit),
                fix=(systemctl("disable", row.unit, "--now"),),
            )


def saw(image: Image) -> str:
    if image.case is not None:
        return "; ".join(it.says for it in image.case.verdicts if it.sign in SIGNS and it.says)
    restarted = [row.restarts for row in image.survey.rows if row.restarts]
    return f"{len(image.survey.rows)} services, {len(restarted)} of them restarted at least once"


def _soaked(case: Case) -> Iterator[Objection | Blind]:
    for finding in case.findings:
        if finding.sign in SIGNS:
            yield Objection(
                subject=finding.subject,
                says=f"{finding.sign}: {finding.says}",
                where=finding.evidence[-1].source,
                fix=(command("zombiescope", "explain", finding.sign),),
            )
    for verdict in case.verdicts:
        if verdict.sign in SIGNS and verdict.state in ("blind", "broken"):
            seen = [it.source for it in verdict.evidence] or [shown_by("zombiescope", "explain", verdict.sign)]
            yield Blind(what=verdict.sign, source=seen[-1], why=verdict.says)
