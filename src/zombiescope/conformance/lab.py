"""A scenario: its truth names signs that exist, and it ends within a minute."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.lab._scenario import missing
from zombiescope.members.rooms import names

LONGEST = 60  # seconds: a score makes each of them happen


def check(name: str, scenario: ModuleType) -> Iterator[Complaint]:  # noqa: ARG001
    yield from parameters(scenario, "run", ["scale"])
    truth = scenario.TRUTH
    if unknown := {*truth.chain, *truth.silent} - {*names("signs"), ""}:
        mend = "see `zombiescope explain` for the signs there are"
        yield Complaint(says=f"its truth names {min(unknown)}", mend=mend, about="TRUTH")
    if unmet := [it for it in missing(scenario.NEEDS) if it.endswith(": unknown")]:
        mend = "the lab knows the needs of lab/_scenario.py"
        yield Complaint(says=f"it needs {unmet[0].removesuffix(': unknown')}", mend=mend, about="NEEDS")
    if scenario.SECONDS > LONGEST:
        yield Complaint(says=f"it takes {scenario.SECONDS} s", mend=f"at the most {LONGEST}", about="SECONDS")
