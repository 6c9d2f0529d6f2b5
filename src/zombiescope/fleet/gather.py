"""Recordings of many nodes, copied by hand, into a store: hour by hour, each once however often it is gathered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from zombiescope.core import UserError, harmless
from zombiescope.fleet.csv_rows import csv_rows
from zombiescope.fleet.hour_parcel import hour_parcel, hours, labels_of, node_name
from zombiescope.fleet.hours import parcel_key
from zombiescope.fleet.schemas import node_id
from zombiescope.fleet.store import Taking
from zombiescope.members.rooms import Broken, guarded
from zombiescope.recorder.meta import is_recording
from zombiescope.recorder.replay import opened

LARGEST = 64 << 20  # bytes of a file of labels


@dataclass(slots=True)
class Gathered:
    folder: str
    node: str = ""
    hours: int = 0
    there: int = 0  # hours that the store has already
    bytes: int = 0
    why: str = ""  # it could not be read


def gather(
    store: Taking,
    folders: Sequence[str],
    label: Sequence[str],
    labels: str,
    say: Callable[[str], None],
    until: float = float("inf"),
    *,
    clips: bool = False,
) -> list[Gathered]:
    """A folder that is no recording is searched for some, one level deep. What cannot be read costs only itself.

    Hours that are not over at `until` are left out: an hour counts once, so it has to be whole.
    """
    own = labels_of(label, "--label")
    by_node = _read_labels(labels) if labels else {}
    recordings = [it for folder in folders for it in _recordings(folder)]
    if not recordings:
        raise UserError(
            f"{harmless(', '.join(folders))}: no recording here: a recording is a folder with meta.json in it"
        )
    done = []
    for folder in recordings:
        one = Gathered(harmless(folder))
        failed = guarded(lambda folder=folder, one=one: _ship(store, folder, own, by_node, one, until, clips))  # type: ignore[misc]
        if isinstance(failed, Broken):
            one.why = failed.why
        say(f"{one.folder}: " + (one.why or f"{one.node}, {one.hours} hours"))
        done.append(one)
    return done


def _ship(
    store: Taking,
    folder: str,
    own: dict[str, str],
    by_node: Mapping[str, Mapping[str, str]],
    one: Gathered,
    until: float,
    clips: bool,
) -> None:
    try:
        recording = opened(folder)
        name = node_name(recording)
        one.node = harmless(name)
        for hour in hours(recording, until):
            key = parcel_key(hour, node_id(name))
            if store.has(key):
                one.there += 1
            elif content := hour_parcel(recording, hour, own | dict(by_node.get(name, {})), clips=clips):
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
