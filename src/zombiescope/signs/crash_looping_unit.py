"""systemd starts a service again and again because it keeps ending.

Why it hurts: each start makes a cgroup, forks, reads files and writes logs; a page left charged to that cgroup keeps
    it forever. A unit whose start limit never trips loops until the node is switched off, and no dashboard shows it:
    at any one moment the unit is starting.
False alarms: a service that waits for another one at boot by failing a few times; a worker with Restart=always that is
    meant to end after each piece of work. Both restart; check whether they leave something behind.
References: systemd.service(5), Restart=; systemd.unit(5), StartLimitIntervalSec=.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Blind, Finding, Reading, Span, lasting
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.kernel_log import Line, lines_of
from zombiescope.derived.restarts import most_restarted
from zombiescope.derived.unit_results import WELL, crashes, ended

COUNTER, LOG = "unit_restarts_total", "kernel_log"
# Scale: restarts of one unit: the same on any node.
NEEDS = ((COUNTER, LOG),)
TIMES = 3  # restarts seen: the Prometheus node mixin alerts at more than two within five minutes
APART = 240.0  # seconds: node-problem-detector reports 5 restarts in 20 minutes; slower is not a loop
BEFORE = 5  # restarts before the recording: one more in a short recording, or waiting for one, is the same loop


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    if timeline.looked(COUNTER, times=2):
        for subject in timeline.subjects(COUNTER, "unit"):
            yield from _counted(timeline, timeline.series(COUNTER, subject))
        return
    yield from _logged(timeline)
    looks = timeline.looks(COUNTER)
    unseen = looks.latest if len(looks) else None
    why = f"{unseen.text}; " if unseen and unseen.text else ""
    source = unseen.source if unseen and unseen.source else "$ systemctl list-units"
    yield Blind(
        what=COUNTER, source=source, why=f"{why}the kernel's log has systemd's messages only where no journal runs"
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The service restarted most, where none loops."""
    return most_restarted(timeline, COUNTER, LOG, "services")


def _counted(timeline: Timeline, counter: Series) -> Iterator[Finding]:
    """By systemd's own count: stretches of time in which restarts follow each other closely enough."""
    looked = counter.until - float(counter.at[0])
    waits = "auto-restart" in counter.latest.text and not _stopped(timeline, counter)
    # Too short to see a slow loop: restarts from before the recording, and signs that it goes on, must do.
    short = looked < TIMES * APART and counter.values[0] >= BEFORE
    stretches = list(_stretches(counter))
    for first, last in stretches:
        times = float(counter.values[last] - counter.values[first])
        if times >= TIMES or short:
            start = _start(timeline, counter, first)
            # A unit that waits for its next start still loops though its count does not rise.
            end = counter.until if waits and last == len(counter) - 1 else float(counter.at[last])
            over = looked if short else float(counter.at[last]) - start
            pace = f"{times:,.0f} restarts in {lasting(over)} ({_pace(times / over * 3600)})"
            yield _finding(timeline, counter, Span(start, end), pace)
    if short and waits and not stretches:
        yield _finding(timeline, counter, Span(float(counter.at[0]), counter.until), "waits to be started again")


def _stopped(timeline: Timeline, counter: Series) -> bool:
    """Whether somebody stopped it since it was last counted."""
    state = timeline.series("unit_active", counter.subject)
    return bool(len(state)) and state.latest.at > counter.latest.at and "auto-restart" not in state.latest.text


def _start(timeline: Timeline, counter: Series, first: int) -> float:
    """When the count before the first rise was last read: a recording has a value once, when it was first so.

    If nothing is known from before it, the loop may be older: then from the beginning.
    """
    looks = timeline.looks(counter.what)
    seen = looks.at[looks.values > 0]
    before = int(np.searchsorted(seen, counter.at[first + 1])) - 1
    start = float(counter.at[first])
    return max(start, float(seen[before])) if first and before >= 0 else start


def _stretches(counter: Series) -> Iterator[tuple[int, int]]:
    """From the sample before a first rise to the last rise that is not too far from the one before it."""
    rises = np.flatnonzero(np.diff(counter.values) > 0) + 1
    far = np.flatnonzero(np.diff(counter.at[rises]) > APART) + 1
    for group in np.split(rises, far):
        if len(group):
            yield int(group[0]) - 1, int(group[-1])


def _finding(timeline: Timeline, counter: Series, span: Span, pace: str) -> Finding:
    told_too = [timeline.series(what, counter.subject) for what in ("unit_loops_for_ever", "unit_cgroup")]
    judged = [one.latest.text for one in told_too[:1] if len(one)]
    return Finding(
        subject=counter.subject,
        span=span,
        says=f"{_verb(counter)}: " + ", ".join([pace, f"{counter.values[-1]:,.0f} in all", *_last(counter), *judged]),
        evidence=(counter.first, counter.latest, *(one.latest for one in told_too if len(one))),
        harm=crashes(counter, span),
    )


def _logged(timeline: Timeline) -> Iterator[Finding]:
    """By what systemd wrote to the kernel's log, as it does where no journal runs."""
    lines: dict[str, list[Line]] = {}
    for one in lines_of(timeline, "unit_restart"):
        lines.setdefault(one.message.fields["unit"], []).append(one)
    for unit, group in lines.items():
        first, last = group[0].reading, group[-1].reading
        seconds = last.at - first.at
        if len(group) >= TIMES and seconds <= APART * (len(group) - 1):
            per_hour = (len(group) - 1) / max(seconds, 1.0) * 3600
            counter = group[-1].message.fields.get("counter")
            total = f", {counter} in all" if counter else ""
            pace = f"{len(group):,} restarts logged in {lasting(seconds)} ({_pace(per_hour)})"
            yield Finding(
                subject=f"unit:{unit}",
                span=Span(first.at, last.at),
                says=f"keeps restarting: {pace}{total}",
                evidence=(first, last),
                harm=Harm(unknown=("broken",)),  # these lines do not say how its runs ended
            )


def _verb(counter: Series) -> str:
    """A service that ends with success restarts as it was configured to; it does not crash."""
    return "keeps restarting" if ended(counter)[0] in ("", WELL) else "keeps crashing"


def _last(counter: Series) -> list[str]:
    """How it last ended, in words; systemd's own word for the rarer results (timeout, watchdog, oom-kill)."""
    result, status = ended(counter)
    if result in ("exit-code", "success") and status:
        return [f"last exit code {status}"]
    if result in ("signal", "core-dump") and status:
        return [f"last ended by signal {status}"]
    return [f"last result {result}"] if result else []


def _pace(per_hour: float) -> str:
    if per_hour >= 7200:
        return f"{per_hour / 3600:,.0f} a second"
    return f"{per_hour / 60:,.0f} a minute" if per_hour >= 120 else f"{per_hour:,.0f} an hour"
