"""One hour of a recording as a parcel: the same for a timer, the agent and its clients."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from zombiescope.core import Span, UserError, harmless
from zombiescope.fleet.clip import clipped, moment
from zombiescope.fleet.hours import SECONDS, Hour, hour_of
from zombiescope.fleet.node_tables import made, node_tables
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import node_id
from zombiescope.recorder.replay import Recording

MOST_HOURS = 24 * 31  # of one recording
SETTLES = 300  # seconds after which a recorder has written all of an hour


def node_name(recording: Recording) -> str:
    return str(recording.meta.get("node") or os.path.basename(os.path.normpath(recording.folder)))


def hours(recording: Recording, until: float) -> Iterator[Hour]:
    """Those that it reaches into and that are over at `until`: an hour counts once, so it has to be whole."""
    span = recording.span
    first, last = hour_of(span.start), hour_of(max(span.end - 1e-6, span.start))
    if last.start - first.start > MOST_HOURS * SECONDS:
        raise UserError(f"it says that it lasts {(last.start - first.start) // 86400} days: its clock was set")
    for at in range(first.start, last.start + 1, SECONDS):
        if hour_of(at).end + SETTLES <= until:
            yield hour_of(at)


def hour_tables(recording: Recording, hour: Hour, name: str, labels: Mapping[str, str]) -> dict[str, pa.Table]:
    timeline = recording.timeline(Span(hour.start, hour.end - 1e-6))
    return node_tables(timeline, hour, name, str(recording.meta.get("kernel") or ""), labels)


def hour_parcel(recording: Recording, hour: Hour, labels: Mapping[str, str], *, clips: bool = False) -> bytes:
    """Empty if nothing was recorded in that hour. With `clips` a cut of the recording goes with what did harm."""
    tables = hour_tables(recording, hour, node_name(recording), labels)
    if clips and (worst := moment(tables)) is not None:
        content, span, samples = clipped(recording, worst[0])
        if content:
            until = min(max(span.end, hour.start), hour.end)  # a row is of the hour in which it ends
            columns = {"started": [span.start], "ended": [until], "reason": [worst[1]], "samples": [samples]}
            tables["clips"] = made("clips", node_id(node_name(recording)), columns | {"content": [content]})
    return packed(tables) if tables else b""


def labels_of(given: Sequence[str], option: str) -> dict[str, str]:
    """KEY=VALUE, each."""
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise UserError(f"{option} {harmless(one)}: not KEY=VALUE")
        found[key] = value
    return found
