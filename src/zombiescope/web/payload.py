"""All that the page needs of one source, as one bundle of bytes: a small JSON header, then raw columns.

The page computes every heatmap, flame graph, difference and search itself from these columns, so it needs no server
queries: what a server sends once and what a single file contains are the same bytes.

Times are ticks since the axis begins: as fine as 32 bits allow, and a range that begins and ends on a tick holds
exactly the samples it should.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from zombiescope import __version__
from zombiescope.core import Case, harmless
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.cores import MODES
from zombiescope.diagnosis.examine import examine
from zombiescope.profile.about import line
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.tree import planted
from zombiescope.web._axis import Axis, axis_of
from zombiescope.web._columns import Columns
from zombiescope.web._cores import modes
from zombiescope.web._rows import MOST, Rows, rows_of
from zombiescope.web._series import curves
from zombiescope.web._story import events, told

MAGIC = b"zsview01"


class Source(Protocol):
    """An opened source: samples, and readings if it is a recording."""

    @property
    def capture(self) -> Samples: ...

    @property
    def label(self) -> str: ...

    @property
    def timeline(self) -> Timeline | None: ...

    @property
    def recording(self) -> Any: ...


def bundle_of(source: Source, most_rows: int = MOST) -> bytes:
    """Everything of a source, with its diagnosis if it has readings; as fine as `most_rows` allows."""
    capture, timeline = source.capture, source.timeline
    if not capture.label:
        capture = replace(capture, label=source.label)
    if timeline is None:
        return bundle(capture, most_rows=most_rows)
    meta = source.recording.meta if source.recording is not None else {}
    case = examine(timeline, node=str(meta.get("node", "")), kernel=str(meta.get("kernel", "")))
    return bundle(capture, timeline, case, most_rows)


def bundle(
    capture: Samples, timeline: Timeline | None = None, case: Case | None = None, most_rows: int = MOST
) -> bytes:
    """The whole of a source; what it lacks (stacks, readings, times) is left out and noted."""
    busy = capture.only(capture.busy)
    axis = axis_of(busy, timeline)
    columns = Columns()
    rows = _stacks(busy, axis, columns, most_rows)
    axis = rows.axis
    header: dict[str, Any] = {
        "zombiescope": __version__,
        "label": harmless(capture.label),
        "clock": capture.clock,
        "unit": capture.unit,
        "hz": capture.hz,
        "origin": str(axis.origin),  # nanoseconds since 1970 are more than a browser's numbers hold
        "length": axis.length,
        "tick": axis.tick,
        "cell": axis.cell,
        "notes": [
            harmless(note) for note in (*_origin(capture), *capture.notes, *rows.notes, *_missing(busy, timeline))
        ],
        "samples": len(busy),
        "cpus": np.unique(busy.cpu).tolist(),  # -1 is unknown
        "events": events(timeline, case, axis),
        "case": told(case) if case is not None else None,
        "series": [],
        "cores": None,
    }
    if timeline is not None:
        _readings(timeline, axis, columns, header)
    return columns.packed(MAGIC, header)


def _origin(capture: Samples) -> list[str]:
    """What a file of others is, and what was chosen of it; a recording says so itself."""
    return [line(capture)] if capture.origin.option else []


def _stacks(capture: Samples, axis: Axis, columns: Columns, most_rows: int) -> Rows:
    """The samples and the tree of their stacks."""
    tree = planted(capture)
    rows = rows_of(capture, tree.leaf, axis, most_rows)
    # Times rise slowly: as steps they compress to a third.
    columns.numbers("at", np.diff(rows.at, prepend=0))
    columns.numbers("cpu", rows.cpu + 1)  # 0 is unknown
    columns.numbers("who", rows.who)
    columns.numbers("leaf", rows.leaf)
    columns.numbers("weight", rows.weight)
    columns.numbers("long", rows.long)
    if rows.axis.tick > axis.cell:
        # Rows are too coarse to show what happened within a second: the heatmap is sent separately.
        cells = heatmap(capture, axis.cell, start=axis.origin, end=axis.origin + axis.length)
        columns.numbers("heat", cells)
    columns.tree(tree)
    columns.words("comms", [who.comm for who in capture.whos])
    columns.words("cgroups", [who.cgroup for who in capture.whos])
    columns.numbers("pids", np.array([who.pid + 1 for who in capture.whos], np.int64))  # 0 is unknown
    columns.numbers("spent", np.bincount(rows.who, rows.weight, len(capture.whos)))
    return rows


def _readings(timeline: Timeline, axis: Axis, columns: Columns, header: dict[str, Any]) -> None:
    found = modes(timeline, axis)
    if found is not None:
        columns.numbers("modes", found.shares)
        header["cores"] = {
            "cell": found.cell,
            "cells": found.cells,
            "cpus": found.cpus,
            "modes": list(MODES),
            "nodes": found.nodes,
        }
    cell, drawn = curves(timeline, axis)
    for number, curve in enumerate(drawn):
        columns.numbers(f"series{number}", curve.values.astype(np.float32))
        header["series"].append({"name": curve.name, "unit": curve.unit, "of": harmless(curve.of), "cell": cell})


def _missing(capture: Samples, timeline: Timeline | None) -> list[str]:
    said = []
    if not len(capture):
        said.append("no stacks: nothing was sampled, or no core was busy")
    if capture.clock == "none" and len(capture):
        said.append("no times: the source does not say when its samples were taken, so there is only one flame graph")
    if timeline is None:
        said.append("no readings: only a recording has the node's events, series and diagnosis")
    elif not timeline.span.seconds:
        said.append("only one sample: there is no time range to show")
    return said
