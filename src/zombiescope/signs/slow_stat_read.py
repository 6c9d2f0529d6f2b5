"""Reading the root cgroup's statistics takes so long that the reader starves its core.

Why it hurts: kubelet, cadvisor and node agents read these files every few seconds. The read runs in the kernel on one
    core, in part with interrupts off: 70 µs for each cgroup before Linux 5.8, 2 µs for each one with changed
    statistics today. Packets of a network queue served by that core wait for it.
False alarms: one read on an overloaded machine waits for its turn; so CPU time is measured, not elapsed time.
References: kernel commits dd8657b6c1cb (in v5.8) and 2d146aa3aa84 (in v5.13).
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, Span
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline

SYMPTOM = True
ALWAYS_PROVED = "statistics are read quickly"
# Scale: SLOW is what delays packets on one core, on any node; WALKS is for each cgroup.
NEEDS = ("stat_read_seconds",)
SLOW = 0.05  # seconds of CPU time: 1,000 times a healthy read, and long enough to delay packets
WALKS = 0.5e-6  # seconds for each cgroup: more than this, with many of them, is a walk over all of them


def find(timeline: Timeline) -> Iterator[Finding]:
    known = timeline.series("cgroups_known", "controller:memory")
    for subject in timeline.subjects("stat_read_cpu_seconds", "file"):
        spent, took = timeline.series("stat_read_cpu_seconds", subject), timeline.series("stat_read_seconds", subject)
        worst = int(spent.values.argmax())
        seconds = float(spent.values[worst])
        if seconds < SLOW:
            continue
        evidence = [spent.reading(worst), took.reading(worst)]
        each = ""
        if len(known) and known.latest.value > 1:
            evidence.append(known.latest)
            microseconds = seconds / known.latest.value * 1e6
            walk = ": it visits all" if seconds / known.latest.value >= WALKS and known.latest.value >= 1000 else ""
            each = f", {microseconds:.1f} µs for each of {known.latest.value:,.0f} cgroups{walk}"
        yield Finding(
            subject=subject,
            span=Span(float(spent.at[worst]), float(spent.at[worst]) + seconds),
            says=f"took {seconds * 1e3:.0f} ms of CPU time{each}",
            evidence=tuple(evidence),
            # What agents spend on such reads, sampled stacks show: see cgroup_walker.
            harm=Harm(unknown=() if timeline.looked("samples_total", 2) else ("burnt",)),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The slowest read, where none was slow."""
    reads = sorted(timeline.latest("stat_read_cpu_seconds"), key=lambda reading: reading.value, reverse=True)
    if not reads:
        return "", ()
    slowest = reads[0]
    return f"slowest read: {slowest.subject.removeprefix('file:')} in {slowest.value * 1e3:.2f} ms", tuple(reads)
