"""What remedies plan for a recording, as a whole diagnosis would ask them."""

from __future__ import annotations

from dataclasses import replace

from zombiescope.core import Case, Finding, Plan, Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy


def plans(timeline: Timeline, remedy: str, *signs: str, kernel: str = "6.8.0", host: str = "worker-1") -> list[Plan]:
    """Of one remedy, for what these signs find; laws join what they can."""
    room, laws = healthy("signs"), healthy("laws")
    known = {name: law for name, law in laws.items() if set(name.split("_to_")) <= set(signs)}
    case = examine(
        timeline,
        node=host,
        kernel=kernel,
        signs={name: room[name] for name in signs},
        laws=known,
        questions={},
        remedies={remedy: healthy("remedies")[remedy]},
    )
    assert case.findings, "a recording in which nothing is found tests no remedy"
    for plan in case.plans:
        for step in plan.steps:
            assert step.says and "\n" not in step.says
            assert step.argv or not (step.stdin or step.undo or step.keeps or step.unit), "advice does nothing"
            forms = getattr(healthy("remedies")[remedy], "FORMS", ())
            assert not step.argv or any(form.fits(step) for form in forms), f"it could not be undone: {step}"
    return list(case.plans)


def plan_for(finding: Finding, remedy: str, timeline: Timeline, *, kernel: str = "6.8.0") -> Plan | None:
    """Of one remedy, for one finding alone."""
    case = Case(node="worker-1", kernel=kernel, span=finding.span, findings=(finding,))
    planned: Plan | None = healthy("remedies")[remedy].plan(finding, case, timeline)
    return replace(planned, name=remedy) if planned else None


def finding(sign: str, subject: str, *evidence: Reading) -> Finding:
    at = evidence[0].at
    return Finding(sign=sign, subject=subject, span=Span(at, at + 10), says="seen", evidence=evidence)


def to_nobody(line: str) -> None:
    """For what a fix tells while it goes on."""
