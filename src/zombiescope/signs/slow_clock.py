"""Asking for the time takes microseconds instead of nanoseconds, because the kernel gave up the fast clock.

Why it hurts: databases, tracers and runtimes ask for the time at every request. With hpet or acpi_pm each call enters
    the kernel and reads a device, one core after the other: the same hardware is half as fast, and no counter says
    why.
False alarms: kvm-clock and Hyper-V's clock have odd names and are fast. So nanoseconds are measured, never names. On a
    very slow or emulated processor every call takes long, so what the same call takes that reads no clock is taken off.
References: Documentation/timers/timekeeping.rst; kernel/time/clocksource.c; arch/x86/kernel/hpet.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of
from zombiescope.derived.sampled_work import by_process, spells
from zombiescope.knowledge.functions import shows

# Scale: the time of one call: the same on any node.
NEEDS = ("clock_read_seconds",)
SLOW = 600e-9  # seconds a call, beyond one that reads no clock: 15 ns with tsc, also emulated; with hpet 1 µs and more
CALL = "clock_call_seconds"
SHOWN = 2  # lines of the log, as evidence


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[0], "clock"):
        cost = timeline.series(NEEDS[0], subject)
        call = timeline.series(CALL, subject)
        if float(cost.values.min()) - (float(call.values.min()) if len(call) else 0.0) < SLOW:
            continue
        lines = lines_of(timeline, "clock_unstable")
        given_up = "; the kernel logged that it gave up another clock as unstable" if lines else ""
        reads = timeline.samples(wanted=lambda frames: shows(frames, "clock_read"))
        parts = [part for who, own in by_process(reads) for work in spells(who, own) for part in work.burnt(timeline)]
        known = tuple(timeline.latest("clocksources"))
        yield Finding(
            subject=subject,
            span=cost.span,
            says=(
                f"takes {cost.values.min() * 1e9:,.0f} ns for each question for the time; the kernel could use "
                f"{harmless(known[0].text) if known else 'others'}{given_up}"
            ),
            evidence=(
                cost.latest,
                *((call.latest,) if len(call) else ()),
                *known,
                *(it.reading for it in lines[:SHOWN]),
            ),
            harm=Harm(parts=tuple(parts), unknown=() if parts else ("burnt",)),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    now, call = timeline.latest(NEEDS[0]), timeline.latest(CALL)
    own = f", {call[0].value * 1e9:,.0f} ns of it without a clock" if call else ""
    return f"{now[0].text}: {now[0].value * 1e9:,.0f} ns a call{own}" if now else "", (*now, *call)
