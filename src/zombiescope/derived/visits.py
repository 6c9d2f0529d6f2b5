"""A walker's visits to cgroups: its samples of them, and what visits to live cgroups alone can cost at most."""

from __future__ import annotations

import numpy as np

from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.functions import visits

# Seconds for one cgroup on one core whose statistics changed there: 1.7 to 2.1 µs measured on Linux 6.18.
EACH = 3e-6
LATE = 1.5  # sampling periods: a sample that stands for more comes at the end of a stretch with interrupts off


def visits_of(timeline: Timeline, walker: str) -> Samples:
    """The samples in which this walker visits cgroups; those of all kernel workers where the kernel itself walks."""
    samples = timeline.once(_visiting)
    if walker.startswith("process:kworker ("):
        pids = [who.pid for who in samples.whos if who.comm.startswith("kworker/")]
    else:
        pids = [who.pid for who in samples.whos if walker.endswith(f"[{who.pid}]")]
    return samples.only(np.isin(samples.pid, pids))


def late(samples: Samples) -> Samples:
    """Those that end a stretch with interrupts off."""
    return samples.only(samples.weight_seconds * samples.hz > LATE)


def most_for_live(timeline: Timeline, live: float) -> float:
    """Seconds that one flush takes at most where it visits live cgroups only: each on each core where it ran."""
    possible = timeline.series("cpus_possible")
    many = possible.latest.value if len(possible) else len(timeline.subjects("cpu_idle_seconds_total", "cpu"))
    return EACH * live * max(many, 1)


def _visiting(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=visits)
