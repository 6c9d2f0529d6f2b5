"""Recordings of many nodes, copied by hand, into a store: hour by hour, each once however often it is gathered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from zombiescope.core import Span, UserError, harmless
from zombiescope.fleet.csv_rows import csv_rows
from zombiescope.fleet.hours import SECONDS, hour_of, parcel_key
from zombiescope.fleet.node_tables import node_tables
from zombiescope.fleet.parcel import packed
from zombiescope.fleet.schemas import node_id
from zombiescope.fleet.store import Store
from zombiescope.members.rooms import Broken, guarded
from zombiescope.recorder.meta import is_recording
from zombiescope.recorder.replay import opened

LARGEST = 64 << 20  # bytes of a file of labels
MOST_HOURS = 24 * 31  # of one recording
SETTLES = 300  # seconds after which a recorder has written all of an hour


@dataclass(slots=True)
class Gathered:
    folder: str
    node: str = ""
    hours: int = 0
    there: int = 0  # hours that the store has already
    bytes: int = 0
    why: str = ""  # it could not be read


def gather(
    store: Store,
    folders: Sequence[str],
    label: Sequence[str],
    labels: str,
    say: Callable[[str], None],
    until: float = float("inf"),
) -> list[Gathered]:
    """A folder that is no recording is searched for some, one level deep. What cannot be read costs only itself.

    Hours that are not over at `until` are left out: an hour counts once, so it has to be whole.
    """
    own = _own(label)
    by_node = _read_labels(labels) if labels else {}
    recordings = [it for folder in folders for it in _recordings(folder)]
    if not recordings:
        raise UserError(
            f"{harmless(', '.join(folders))}: no recording here: a recording is a folder with meta.json in it"
        )
    done = []
    for folder in recordings:
        one = Gathered(harmless(folder))
        failed = guarded(lambda folder=folder, one=one: _ship(store, folder, own, by_node, one, until))  # type: ignore[misc]
        if isinstance(failed, Broken):
            one.why = failed.why
        say(f"{one.folder}: " + (one.why or f"{one.node}, {one.hours} hours"))
        done.append(one)
    return done


def _ship(
    store: Store,
    folder: str,
    own: Mapping[str, str],
    by_node: Mapping[str, Mapping[str, str]],
    one: Gathered,
    until: float,
) -> None:
    try:
        recording = opened(folder)
        name = str(recording.meta.get("node") or os.path.basename(os.path.normpath(folder)))
        one.node = harmless(name)
        kernel = str(recording.meta.get("kernel") or "")
        span = recording.span
        first, last = hour_of(span.start), hour_of(max(span.end - 1e-6, span.start))
        if last.start - first.start > MOST_HOURS * SECONDS:
            raise UserError(f"it says that it lasts {(last.start - first.start) // 86400} days: its clock was set")
        for at in range(first.start, last.start + 1, SECONDS):
            hour = hour_of(at)
            key = parcel_key(hour, node_id(name))
            if hour.end + SETTLES > until:
                continue
            if store.has(key):
                one.there += 1
                continue
            timeline = recording.timeline(Span(hour.start, hour.end - 1e-6))
            tables = node_tables(timeline, hour, name, kernel, {**own, **by_node.get(name, {})})
            if tables:
                content = packed(tables)
                one.hours += 1
                one.bytes += len(content)
                store.create(key, content)
    except (UserError, pa.ArrowException, OSError, ValueError) as error:
        one.why = harmless(str(error))


def _recordings(folder: str) -> list[str]:
    if is_recording(folder):
        return [folder]
    try:
        below = sorted(it.path for it in os.scandir(folder) if it.is_dir())
    except OSError as error:
        raise UserError(f"{harmless(folder)}: {(error.strerror or str(error)).lower()}") from error
    return [it for it in below if is_recording(it)]


def _own(label: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in label:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise UserError(f"--label {harmless(one)}: not KEY=VALUE")
        found[key] = value
    return found


def _read_labels(path: str) -> dict[str, dict[str, str]]:
    """One row a node: `node,zone,image,instance_type,pool,…`."""
    rows = list(csv_rows(path, LARGEST))
    if not rows or "node" not in rows[0]:
        raise UserError(f"{path}: its first line must name the columns, and one of them must be node")
    return {
        row["node"]: {
            key: value for key, value in row.items() if key and key != "node" and isinstance(value, str) and value
        }
        for row in rows
    }
