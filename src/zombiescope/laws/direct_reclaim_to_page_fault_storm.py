"""A page that is dropped to make room and still needed is faulted in again, so reclaim at a limit makes faults."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: a needed page is faulted in at once
FEWEST, MOST = 0.3, 5.0  # major faults for each hit of the limit: about one, as each fault needs a page


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    hits = next((it for it in cause.evidence if it.what == "cgroup_limit_hits_per_second"), None)
    majors = next((it for it in effect.evidence if it.what == "vmstat_pgmajfault_per_second"), None)
    if hits is not None and majors is not None and hits.value and FEWEST <= majors.value / hits.value <= MOST:
        says = f"{majors.value:,.0f} major faults a second, {hits.value:,.0f} hits of the limit a second"
        yield Ground(kind="dose", says=says, evidence=(hits, majors))
