"""What held when a part of a recording begins, and what logs had told until then: what a look of that time would see.

A value is written when it changed, and what is read seldom is read every ten minutes. So a part begins with the last
look of each probe before it, and with what that look read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.members.rooms import healthy
from zombiescope.recorder.changes import MINUTE
from zombiescope.recorder.layout import LOOKED, UNSEEN
from zombiescope.recorder.rows import Codes, Rows, joined, only, place_of
from zombiescope.recorder.stack_series import NAME

REACH = 660.0  # seconds: the slowest probes look every ten minutes, and a busy recorder is late
PAST = 600.0  # seconds of a log that a look reads when it begins, as the probes of logs have it
_SECOND = 1_000_000_000
_PREFIX = "probe:"

Gives = Mapping[str, Sequence[str]]
Segments = Iterable[Callable[[Set[str]], Rows]]  # the newest first: rows of the probes that are asked for, or more


def held(segments: Segments, start: int, gives: Gives) -> Rows:
    """The last look of each probe until `start`, in nanoseconds, and all that it read. No more is read than needed."""
    wanted, found = set(gives), list[Rows]()
    for rows_of in segments:
        rows = rows_of(wanted)
        rows = rows.chosen((rows.at <= start) & (rows.at >= start - int(REACH * _SECOND)))
        if looks := _looks(rows, wanted):
            found.append(_read_at(rows, looks, gives))
            wanted -= looks.keys()
        if wanted <= {NAME}:  # what the rings said is in each segment that has samples
            break
    return joined(found[::-1])


def told(segments: Segments, start: int, gives: Gives, logs: Set[str]) -> Rows:
    """The events of logs in the minutes until `start`."""
    probes = {probe for probe, whats in gives.items() if not logs.isdisjoint(whats)}
    found = []
    for rows_of in segments:
        rows = rows_of(probes)
        among = np.array([*(it in logs for it in rows.what.words), False], np.bool_)
        found.append(rows.chosen(among[rows.what.codes] & (rows.at <= start) & (rows.at > start - PAST * _SECOND)))
    return joined(found[::-1])


def logs_of(meta: Mapping[str, Any]) -> set[str]:
    """The events of which a look also reads what was before it."""
    said = meta.get("logs")
    if not isinstance(said, list):  # an older recording
        said = [it for probe in healthy("probes").values() if hasattr(probe, "PAST") for it in probe.EVENTS]
    return {it for it in said if isinstance(it, str)}


def _looks(rows: Rows, wanted: Set[str]) -> dict[str, tuple[int, int]]:
    """When each probe last looked, and how long after the look before that."""
    looked = only(rows, LOOKED)
    found = {}
    for code, word in enumerate(looked.subject.words):
        at = np.sort(looked.at[looked.subject.codes == code])
        if len(at) and (name := word.removeprefix(_PREFIX)) in wanted:
            found[name] = (int(at[-1]), int(at[-1] - at[-2]) if len(at) > 1 else int(REACH * _SECOND))
    return found


def _read_at(rows: Rows, looks: Mapping[str, tuple[int, int]], gives: Gives) -> Rows:
    """The last row of each thing that these looks read, as of the look: it was the same then."""
    own = {what: max(looks[it] for it in looks if what in gives[it]) for it in looks for what in gives[it]}
    last = rows.chosen(_last_of_each(rows))
    looked = _about(last, LOOKED, {f"{_PREFIX}{it}" for it in looks})
    unseen = _about(last, UNSEEN, own.keys())
    look = np.array([*(own.get(it, (0, 0))[0] for it in last.what.words), 0], np.int64)[last.what.codes]
    pause = np.array([*(own.get(it, (0, 0))[1] for it in last.what.words), 0], np.int64)[last.what.codes]
    # What is unchanged is written once a minute: what is older was not there any more.
    read = (look > 0) & (last.at >= look - pause - MINUTE * _SECOND)
    values = last.chosen(read)
    values = Rows(np.maximum(values.at, look[read]), *(getattr(values, it) for it in Rows.__slots__[1:]))
    return joined([last.chosen(looked), last.chosen(unseen), values])


def _about(rows: Rows, what: str, subjects: Set[str]) -> npt.NDArray[np.bool_]:
    own = np.array([*(it in subjects for it in rows.subject.words), False], np.bool_)
    found: npt.NDArray[np.bool_] = (rows.what.codes == place_of(what, rows.what.words)) & own[rows.subject.codes]
    return found


def _last_of_each(rows: Rows) -> Codes:
    """The places of the last row of each thing and subject."""
    key = rows.what.codes.astype(np.int64) * (len(rows.subject.words) + 1) + rows.subject.codes
    order = np.lexsort((rows.at, key))
    last: Codes = order[np.append(np.diff(key[order]) != 0, True)[: len(order)]]
    return last
