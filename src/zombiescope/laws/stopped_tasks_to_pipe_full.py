"""A process that is stopped does not read its pipe, so its writer stands still once it is full."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: writers of pipes are sampled every five


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    reader = effect.subject.removeprefix("process:")
    stopped = cause.evidence[-1]
    if reader != effect.subject and reader in stopped.text.split(", "):
        says = f"{reader}, which should read the pipe, is stopped"
        yield Ground(kind="mechanism", says=says, evidence=(stopped, effect.evidence[0]))
