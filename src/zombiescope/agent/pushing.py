"""The bodies of a push, one for each target: worked out within a look, which has read the samples already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.agent.workloads import workload
from zombiescope.core import Case
from zombiescope.core.timeline import Timeline
from zombiescope.profile.push import otlp, parca, pyroscope
from zombiescope.profile.push.series import MOST_STACKS, series_of

BODIES = {"pyroscope": pyroscope.body, "parca": parca.body, "otlp": otlp.body}
MOST_BODY = 1 << 20  # bytes, packed to a third or less of what servers count: Pyroscope takes 2 MB at once of a tenant
LATE = 2.0  # seconds: newer samples may still be on their way to the disk
LONGEST = 600.0  # seconds in one push: what could not be sent for longer is not sent again
SECOND = 1_000_000_000


def bodies(timeline: Timeline, case: Case, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What was said of them ("until": the next one begins there), and the bodies one after the other."""
    end = timeline.span.end - LATE
    start = max(float(asked["since"]), end - LONGEST, timeline.span.start)
    if end <= start:
        return {"until": start, "parts": []}, b""
    samples, labels = timeline.samples(), workload(timeline)
    span = (round(start * SECOND), round(end * SECOND))
    parts, whole, most = list[list[Any]](), b"", MOST_STACKS
    series = series_of(samples, span, labels, accused(case), most)
    for target in asked["targets"] if series else ():
        body = BODIES[target](series, case.node)
        while len(body) > MOST_BODY and most > 100:
            most //= 2
            series = series_of(samples, span, labels, accused(case), most)
            body = BODIES[target](series, case.node)
        parts.append([target, len(body)])
        whole += body
    return {"until": end, "parts": parts, "series": len(series), "stacks": most}, whole


def accused(case: Case) -> list[int]:
    """Cores that a finding is about which goes on and harms somebody."""
    subjects = {it.subject for it in case.findings if it not in case.past and it not in case.set_aside}
    cores = (it.removeprefix("cpu:") for it in subjects if it.startswith("cpu:"))
    return sorted(int(it) for it in cores if it.isdecimal())
