"""The kernel's own work on a core comes before any program, so whoever is bound to that core waits for it to end."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: who waited runs as soon as the core is free


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """One that may run elsewhere is moved there within milliseconds: it does not wait for this core."""
    core = cause.subject.removeprefix("cpu:")
    allowed = timeline.series("process_cpus_allowed", effect.subject).between(effect.span)
    full = next((it for it in cause.evidence if it.what == "cpu_kernel_ratio"), None)
    if full is not None and len(allowed) and allowed.latest.value == 1 and allowed.latest.text.strip() == core:
        says = f"it may run on {cause.subject} alone, which was {full.value:.0%} in the kernel"
        yield Ground(kind="place", says=says, evidence=(allowed.latest, full))
