"""The whole machine stood still for seconds: no core did anything, busy or idle, and nobody in it could notice.

Why it hurts: a virtual machine that its host pauses, snapshots or migrates comes back with every timeout passed:
    heartbeats are lost, the kernel logs lockups of cores that did nothing wrong, and drivers reset.
False alarms: a starved recorder takes no sample either, but then some core accounts for the time; a core with
    interrupts off loses time alone; a clock that is set jumps without any core. So nothing may have been read, no core
    may have worked, two that had work must lack the time, and an idle core, or the uptime, must show that it passed. A
    recorder that was started anew was not there to see it. A pause that stops the guest's clocks as well cannot be seen
    from inside.
References: Documentation/virt/kvm/x86/timekeeping.rst; https://github.com/firecracker-microvm/firecracker/issues/5494
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Timeline

IDLE = "cpu_idle_seconds_total"
_WORK = tuple(f"cpu_{mode}_seconds_total" for mode in ("user", "nice", "system", "irq", "softirq", "steal"))
_REST = (IDLE, "cpu_iowait_seconds_total")
# Scale: seconds in which no core of any number worked.
NEEDS = (IDLE,)
LONG = 5.0  # seconds without a sample: ten times the pace of /proc/stat; a walk with interrupts off takes less
TIMES = 10.0  # times the usual pace: a recorder that saves its budget samples less often
WORKED = 0.2  # of that time, on any core: more, and somebody kept the recorder from running
LACKS = 0.8  # of that time is accounted for nowhere, on a core that had work: its ticks did not come
CORES = 2  # that lack it: one alone may have had its interrupts off
UPTIME = "uptime_seconds"
NEVER_CHANGES = "cpus_possible"


def find(timeline: Timeline) -> Iterator[Finding]:
    times = timeline.look_times(IDLE)
    if len(times) < 3:
        return
    steps = np.diff(times)
    for place in np.flatnonzero(steps >= max(LONG, TIMES * float(np.median(steps)))).tolist():
        still = Span(float(times[place]), float(times[place + 1]))
        if _started_anew(timeline, still):
            continue
        lacking, passed = _lacking(timeline, still)
        if len(lacking) < CORES or not (passed or _up(timeline, still)):
            continue
        many = len(timeline.subjects(IDLE, "cpu"))
        yield Finding(
            subject="node",
            span=still,
            says=(
                f"stood still for {lasting(still.seconds)}: nothing could be read, no core of {many} worked, and "
                f"{len(lacking)} that had work lack that time"
            ),
            evidence=(_lacks(timeline, lacking[0], still), *(timeline.series(IDLE, it).latest for it in lacking[:2])),
            harm=Harm(parts=(Part(figure="waited", who="node", amount=float(len(lacking)), span=still),)),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    times = timeline.look_times(IDLE)
    longest = float(np.diff(times).max()) if len(times) > 1 else 0.0
    return f"at most {longest:.1f} s between two samples", tuple(timeline.latest(IDLE)[:1])


def _lacking(timeline: Timeline, still: Span) -> tuple[list[str], bool]:
    """Cores whose time is missing, none if any core worked meanwhile; and whether an idle core counted that time."""
    found, passed = [], False
    for cpu in timeline.subjects(IDLE, "cpu"):
        if np.isnan(timeline.series(IDLE, cpu).sampled(np.array([still.start, still.end])).sum()):  # nothing is known
            continue
        worked, rested = (sum(_rise(timeline, what, cpu, still) for what in whats) for whats in (_WORK, _REST))
        if worked > WORKED * still.seconds:
            return [], False
        passed = passed or rested >= LACKS * still.seconds
        if still.seconds - worked - rested >= LACKS * still.seconds:
            found.append(cpu)
    return found, passed


def _started_anew(timeline: Timeline, still: Span) -> bool:
    """Whether another recorder took over: it writes every value anew, also that of what never changes."""
    told = timeline.series(NEVER_CHANGES).at
    return bool(((told > still.start) & (told <= still.end + SLACK)).any())


def _up(timeline: Timeline, still: Span) -> bool:
    """Whether the uptime went on as well: with a clock that was set it would not."""
    up = timeline.series(UPTIME)
    before, after = np.flatnonzero(up.at <= still.start), np.flatnonzero(up.at >= still.end)
    if not len(before) or not len(after):
        return False
    first, last = int(before[-1]), int(after[0])
    jumped = (up.at[last] - up.at[first]) - (up.values[last] - up.values[first])
    return bool(jumped < (1 - LACKS) * still.seconds)


def _rise(timeline: Timeline, what: str, cpu: str, span: Span) -> float:
    before, after = timeline.series(what, cpu).sampled(np.array([span.start, span.end]))
    return float(np.nan_to_num(after - before))


def _lacks(timeline: Timeline, cpu: str, still: Span) -> Reading:
    rest = sum(_rise(timeline, what, cpu, still) for what in (*_WORK, *_REST))
    series = timeline.series(IDLE, cpu).between(still)
    return series.figure("cpu_unaccounted_seconds", still.seconds - rest)
