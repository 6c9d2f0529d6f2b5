"""A sign: a probe gives what it needs; it is blind where nothing was read, and silent on a healthy node."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.conformance._quiet import quiet_node
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy
from zombiescope.recorder import stack_series


def check(name: str, sign: ModuleType) -> Iterator[Complaint]:
    if "_to_" in name:
        yield Complaint(says="its name looks like a law's", mend="name it after the state seen, without _to_")
    yield from parameters(sign, "find", ["timeline"])
    given = {what for probe in healthy("probes").values() for what in probe.GIVES} | set(stack_series.GIVES)
    for need in sign.NEEDS:
        for what in {need} if isinstance(need, str) else set(need):
            if what not in given:
                mend = "no probe gives it, so the sign is always blind: see docs/probes.md, or bring a probe"
                yield Complaint(says=f"it needs {what}", mend=mend, about="NEEDS")
    yield from _where_nothing_was_read(name, sign)
    yield from _on_a_healthy_node(name, sign)


def _where_nothing_was_read(name: str, sign: ModuleType) -> Iterator[Complaint]:
    case = examine(Timeline(), signs={name: sign}, laws={}, questions={}, remedies={})
    state = case.verdicts[0].state
    if state != "blind":
        mend = "blind is never clear: name in NEEDS what it cannot do without"
        yield Complaint(says=f"where nothing was read it is {state}: {case.verdicts[0].says}", mend=mend, about="NEEDS")


def _on_a_healthy_node(name: str, sign: ModuleType) -> Iterator[Complaint]:
    """What the healthy node's recording does not hold, a sign must call blind."""
    case = examine(quiet_node(), signs={name: sign}, laws={}, questions={}, remedies={})
    verdict = case.verdicts[0]
    if case.findings:
        mend = "a healthy node must not be accused: raise the threshold"
        yield Complaint(says=f"on a healthy node it finds: {case.findings[0].says}", mend=mend, about="find")
    elif verdict.state == "broken":
        yield Complaint(says=f"on a healthy node it fails: {verdict.says}", mend="mend find or saw", about="find")
    elif not verdict.evidence:
        mend = "also a claim of being well, or of having looked in vain, carries its readings"
        yield Complaint(says=f"on a healthy node it is {verdict.state} without evidence", mend=mend, about="saw")
