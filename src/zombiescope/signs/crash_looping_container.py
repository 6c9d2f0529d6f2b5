"""A container is started again and again because it keeps ending: CrashLoopBackOff, failed liveness probes, OOM kills.

Why it hurts: the work it was to do is not done. Each start makes cgroups, mounts, processes and a log; a page left
    charged to its cgroup keeps that cgroup for ever.
False alarms: a container that ends with exit code 0 and is restarted as its pod asks for is reported as restarting, not
    as crashing, and nobody is accused. A Job's and a CronJob's containers that end well are not started again.
References: the kubelet waits 10 s before a restart, twice as long each time, 5 min at most, and begins anew after
    10 min without one (kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zombiescope.cgroups.container_ends import COUNTER, EXITS, containers, left_behind
from zombiescope.cgroups.pod_owners import by_name
from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.half_seen import half_seen
from zombiescope.derived.restarts import most_restarted

# Scale: restarts of one container: the same on any node.
NEEDS = ((COUNTER, EXITS),)
TIMES = 3  # ends seen: as for a unit; two may be a start that waits for another container
APART = 600.0  # seconds: after so long without a restart the kubelet itself forgets the loop
BEFORE = 5  # restarts before the look: with one more end, a wait of minutes for the next start is the same loop
SHOWN = 6  # readings, as evidence
KILLED, TERMINATED = 137, 143  # 128 and the signal: SIGKILL, SIGTERM


class _Loop(NamedTuple):
    subject: str
    span: Span
    times: int  # ends or restarts within the span
    counter: Series
    exits: Series


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    for subject in containers(timeline):
        counter, exits = timeline.series(COUNTER, subject), timeline.series(EXITS, subject)
        for loop in _loops(timeline, subject, counter, exits):
            yield _finding(timeline, loop)
    yield from half_seen(timeline, *NEEDS[0])


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The container restarted most, where none loops."""
    return most_restarted(timeline, COUNTER, EXITS, "containers")


def _loops(timeline: Timeline, subject: str, counter: Series, exits: Series) -> Iterator[_Loop]:
    """Stretches in which ends, or rises of the count where no ends can be read, follow each other closely enough."""
    rises = np.flatnonzero(np.diff(counter.values) > 0) + 1
    moments = np.unique(exits.at) if len(exits) else counter.at[rises]
    for group in np.split(moments, np.flatnonzero(np.diff(moments) > APART) + 1):
        if not len(group):
            continue
        within = (counter.at[rises] >= group[0]) & (counter.at[rises] <= group[-1] + APART)
        # The count is read once a minute, so it may rise by several; the ends may be read while it is not.
        grown = sum(float(counter.values[it] - counter.values[it - 1]) for it in rises[within])
        times = max(len(group), int(grown))
        latest = counter.latest.value if len(counter) else 0.0
        recent = timeline.span.end - float(group[-1]) <= APART
        if times >= TIMES or (latest >= BEFORE and recent):
            end = max(float(group[-1]), _there(timeline, subject, counter)) if recent else float(group[-1])
            yield _Loop(subject, Span(_since(timeline, float(group[0]), counter), end), times, counter, exits)


def _since(timeline: Timeline, first: float, counter: Series) -> float:
    """What was restarted before the look, and ends again before the kubelet would forget that, has looped all along."""
    before = len(counter) and counter.first.value > 0 and first - timeline.span.start <= APART
    return min(first, timeline.span.start) if before else first


def _there(timeline: Timeline, subject: str, counter: Series) -> float:
    """A container that waits for its next start still loops, as long as its pod is there: until when that is known."""
    pod = "pod " + subject.removeprefix("container:").rpartition("/")[0]
    told = [it for it in timeline.latest("pod_info") if it.text == pod]
    if told and not any(it.value for it in told):
        return max(it.at for it in told)
    return counter.until if len(counter) else timeline.span.end


def _finding(timeline: Timeline, loop: _Loop) -> Finding:
    exits = loop.exits.between(loop.span)
    # A recorder that starts anew reports ends from before its start: each counts once.
    once = [place for place in range(len(exits)) if place == 0 or exits.at[place] != exits.at[place - 1]]
    codes = [int(exits.values[place]) for place in once]
    crashed = any(codes)
    over = loop.span.seconds
    pace = f"ended {loop.times:,} times in {lasting(over)}" if loop.times > 1 else f"ended {lasting(over)} ago"
    total = [f"{loop.counter.latest.value:,.0f} restarts in all"] if len(loop.counter) else []
    image = _image(timeline, loop.subject)
    told = [exits.reading(place) for place in once[-SHOWN:]]
    counted = [loop.counter.first, loop.counter.latest] if len(loop.counter) else []
    left = _left(timeline, loop)
    does = "keeps crashing" if crashed else "keeps restarting"
    return Finding(
        subject=loop.subject,
        span=loop.span,
        says=f"{does}: " + ", ".join([pace, *total, *_how(exits), *left[0], *_made_by(loop.subject), *image[0]]),
        evidence=(*told, *counted, *image[1], *left[1])[: SHOWN + 5],
        harm=_harm(loop, codes),
    )


def _how(exits: Series) -> list[str]:
    """How it last ended, in words."""
    if not len(exits):
        return ["how it ended cannot be read"]
    last = exits.latest
    code = int(last.value)
    if "OOMKilled" in last.text:
        return [f"last OOM-killed (exit code {code})"]
    by = {KILLED: " (SIGKILL: a failed liveness probe, or killed from outside)", TERMINATED: " (SIGTERM)"}
    return [f"last exit code {code}{by.get(code, '')}"]


def _left(timeline: Timeline, loop: _Loop) -> tuple[list[str], list[Reading]]:
    """What its ends leave behind, as far as the node shows it."""
    left = left_behind(timeline, loop.span)
    if left is None:
        return [], []
    grown = left[1].values[-1] - left[1].values[0]
    return [f"{grown:,.0f} more dying cgroups meanwhile"], [left[1].first, left[1].latest]


def _image(timeline: Timeline, subject: str) -> tuple[list[str], list[Reading]]:
    """From the description of any of its runs that was seen: `container web of pod default/web-1, image …`."""
    namespace, _, rest = subject.removeprefix("container:").partition("/")
    pod, _, name = rest.partition("/")
    for reading in timeline.latest("container_info") if name else ():
        before, found, image = reading.text.partition(f"container {name} of pod {namespace}/{pod}, image ")
        if found and not before:
            return [f"image {image.split(', Ray cluster ')[0].split(' (')[0]}"], [reading]
    return [], []


def _made_by(subject: str) -> list[str]:
    """The Deployment, or what else made its pod, as far as the pod's name shows it."""
    _, _, pod = subject.removeprefix("container:").rpartition("/")[0].partition("/")
    return [f"of {made} (by its pod's name)"] if (made := by_name(pod)) else []


def _harm(loop: _Loop, codes: list[int]) -> Harm:
    """A run that fails is broken; one that ends well is finished work."""
    if not codes:
        return Harm(unknown=("broken",))
    failed = sum(map(bool, codes))
    if not failed:
        return Harm()
    return Harm(parts=(Part(figure="broken", kind="crashes", who=loop.subject, amount=failed, span=loop.span),))
