"""The text on the page: the case as in its JSON, and the events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zombiescope.core import Case, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of as messages
from zombiescope.outputs._story import OTHERS, ground_kind, headline, tellings
from zombiescope.outputs.json import shape
from zombiescope.web._axis import SECOND, Axis

MOST = 5_000  # events: a driver that resets every second for an hour; more cannot be distinguished on screen


def told(case: Case) -> dict[str, Any]:
    """The case, with each chain as indices into the findings, in the order of the report."""
    place = {finding: number for number, finding in enumerate(case.findings)}
    state, says = headline(case)
    shaped = shape(case)
    for finding, one in zip(case.findings, shaped["findings"], strict=True):
        one["rivals"] = [
            {"finding": place[it.cause], "grounds": [ground_kind(ground) for ground in it.grounds]}
            for it in case.rivals_of(finding)[:OTHERS]
        ]
        one["unchecked"] = case.unchecked_for(finding)
    return shaped | {
        "state": state,
        "says": harmless(says, most=240),
        "tellings": [
            {
                "chain": [place[finding] for finding in telling.chain],
                "again": [[place[finding] for finding in chain] for chain in telling.again],
            }
            for telling in tellings(case)
        ],
        "roots": [place[finding] for finding in case.root_causes],
        "noted": [place[finding] for finding in case.noted if finding in place],
        "past": [place[finding] for finding in case.past if finding in place],
    }


def events(timeline: Timeline | None, case: Case | None, axis: Axis) -> list[dict[str, Any]]:
    """Known lines of the kernel log, applied fixes, then findings; those within the axis, by time."""
    found = [*_log(timeline), *_fixes(timeline), *_findings(case)]
    within = [
        one | {"start": axis.seconds(one["start"]), "end": axis.seconds(one["end"])}
        for one in found
        if axis.seconds(one["end"]) >= 0 and axis.seconds(one["start"]) * SECOND <= axis.length
    ]
    return sorted(within, key=lambda one: (one["start"], one["end"]))[:MOST]


def _log(timeline: Timeline | None) -> Iterator[dict[str, Any]]:
    for one in messages(timeline) if timeline is not None else ():
        at = one.reading.at
        yield {"lane": "log", "name": one.message.kind, "text": harmless(one.reading.text), "start": at, "end": at}


def _fixes(timeline: Timeline | None) -> Iterator[dict[str, Any]]:
    done = [timeline.series("fix_event", it) for it in timeline.subjects("fix_event")] if timeline is not None else []
    for one in (series.reading(place) for series in done for place in range(len(series))):
        text = harmless(f"{one.subject}: {one.text}")
        yield {"lane": "fix", "name": "remedies", "text": text, "start": one.at, "end": one.at}


def _findings(case: Case | None) -> Iterator[dict[str, Any]]:
    for number, it in enumerate(case.findings if case is not None else ()):
        yield {
            "lane": "finding",
            "name": it.sign,
            "text": harmless(f"{it.subject}: {it.says}"),
            "start": it.span.start,
            "end": it.span.end,
            "finding": number,
        }
