"""All that the page needs of one source, as one bundle of bytes: a small JSON header, then raw columns.

The page computes every heatmap, flame graph, difference and search itself from these columns, so it needs no server
queries: what a server sends once and what a single file contains are the same bytes.

    "zsview01"   4 bytes: length of the header   the header, padded with blanks   columns, each at a multiple of 8

Numbers are little-endian, each column in the narrowest type that holds it. Times are ticks since the axis begins: as
fine as 32 bits allow, and a range that begins and ends on a tick holds exactly the samples it should.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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
from zombiescope.web._cores import modes
from zombiescope.web._rows import MOST, Rows, rows_of
from zombiescope.web._series import curves
from zombiescope.web._story import events, told

MAGIC = b"zsview01"
LONGEST = 1_000  # characters of a name: C++ has longer ones, which no one reads
_NARROW = (np.uint8, np.uint16, np.uint32, np.float64)  # a browser has no quick 64-bit integers; 2^53 is exact


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


@dataclass(slots=True)
class _Columns:
    """The bytes after the header, and where each column is in them."""

    parts: list[bytes]
    places: dict[str, tuple[str, int, int]]  # type, offset, count
    size: int = 0

    def numbers(self, name: str, values: npt.NDArray[Any]) -> None:
        if values.dtype.kind in "iu":
            most = int(values.max(initial=0))
            fitting = (it for it in _NARROW[:3] if most <= np.iinfo(it).max)
            values = values.astype(next(fitting, np.float64))
        self._add(name, values.dtype.str[1:], values.astype(values.dtype.newbyteorder("<")).tobytes(), values.size)

    def words(self, name: str, words: Sequence[str]) -> None:
        """One per line: harmless() leaves no newline in it."""
        text = "\n".join(harmless(word, most=LONGEST) for word in words).encode()
        self._add(name, "text", text, len(text))

    def _add(self, name: str, kind: str, data: bytes, count: int) -> None:
        self.places[name] = (kind, self.size, count)
        padded = data + b"\0" * (-len(data) % 8)
        self.parts.append(padded)
        self.size += len(padded)


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
    columns = _Columns([], {})
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
    header["columns"] = columns.places
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *columns.parts])


def _origin(capture: Samples) -> list[str]:
    """What a file of others is, and what was chosen of it; a recording says so itself."""
    return [line(capture)] if capture.origin.option else []


def _stacks(capture: Samples, axis: Axis, columns: _Columns, most_rows: int) -> Rows:
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
    columns.words("names", tree.names)
    columns.numbers("kinds", tree.kinds)
    modules = sorted(set(tree.modules))
    columns.words("modules", modules)
    place = {module: number for number, module in enumerate(modules)}
    columns.numbers("module", np.array([place[it] for it in tree.modules]))
    columns.numbers("label", tree.label)
    columns.numbers("parent", np.maximum(tree.parent, 0))  # the root is its own
    columns.numbers("depth", tree.depth)
    columns.numbers("after", tree.after)
    columns.words("comms", [who.comm for who in capture.whos])
    columns.words("cgroups", [who.cgroup for who in capture.whos])
    columns.numbers("pids", np.array([who.pid + 1 for who in capture.whos], np.int64))  # 0 is unknown
    columns.numbers("spent", np.bincount(rows.who, rows.weight, len(capture.whos)))
    return rows


def _readings(timeline: Timeline, axis: Axis, columns: _Columns, header: dict[str, Any]) -> None:
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
