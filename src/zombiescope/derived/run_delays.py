"""How long the threads of a cgroup waited to run, as far as eBPF timed them."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Ground, harmless
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline
from zombiescope.derived.histograms import LONG_SAYS, times

WAIT = "cgroup_run_delay_seconds"


def seen_waiting(timeline: Timeline, cgroup: str, span: Span) -> Iterator[Ground]:
    """That its threads waited long, as a mechanism; `cgroup`: a path."""
    found = times(timeline, WAIT, f"cgroup:{cgroup}", span)
    if found is None or not found.long:
        return
    says = (
        f"timed by eBPF: threads of {harmless(cgroup)} waited up to {found.longest.value * 1e3:.0f} ms to run, "
        f"{found.long:,} times over {LONG_SAYS} in {found.seconds:.1f} s"
    )
    yield Ground(kind="mechanism", says=says, evidence=(found.longest,))
