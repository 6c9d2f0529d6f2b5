"""Rows as they are on disk into series, with what every probe could and could not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.core import Span
from zombiescope.core.timeline import ReadSamples, Series, Timeline
from zombiescope.recorder.arrow_functions import chosen, filled
from zombiescope.recorder.layout import CGROUP, LOOKED, UNSEEN

Codes = npt.NDArray[np.int64]
HOLE = 120.0  # seconds without a row: the clock was set, or nothing was recorded
MOST_SET = 1000  # times that a clock was set in one recording: more is no clock, and each one takes a pass


def cut(table: pa.Table, span: Span | None) -> pa.Table:
    """The rows within a span."""
    if span is None or "at" not in table.column_names:
        return table
    at = table["at"].to_numpy()
    return chosen(table, (at >= span.start * 1e9) & (at <= span.end * 1e9))


def only(table: pa.Table, name: str) -> pa.Table:
    """The rows about one thing."""
    if not table.num_rows:
        return table
    what = table["what"].combine_chunks()
    words = what.dictionary.to_pylist()
    return chosen(table, _codes(what) == (words.index(name) if name in words else -2))


def cgroup_paths(events: pa.Table) -> dict[int, str]:
    """The paths of cgroups, by number."""
    said = only(events, CGROUP)
    if not said.num_rows:
        return {}
    paths = (subject.removeprefix("cgroup:") for subject in said["subject"].to_pylist())
    return dict(zip(map(int, said["value"].to_pylist()), paths, strict=True))


def in_order(at: npt.NDArray[np.float64], *, events: bool = False) -> Codes:
    """The order by time of rows as they were written. Where the clock was set back, that time was recorded twice.

    What was written last holds then: the two mixed would be a counter that jumps up and down, and rates that never
    were. Events keep their times: the kernel's log has earlier ones.
    """
    gaps = np.diff(at)
    if events or not (gaps < 0).any():
        return np.argsort(at, kind="stable")
    # A clock set forwards leaves a hole, in which nothing was recorded twice.
    set_at = np.flatnonzero((gaps < 0) | (gaps > max(HOLE, 10 * float(np.median(np.abs(gaps)))))) + 1
    if len(set_at) > MOST_SET:
        return np.argsort(at, kind="stable")
    kept = np.ones(len(at), np.bool_)
    for start, end in pairwise([*set_at.tolist(), len(at)]):
        kept[:start] &= (at[:start] < at[start]) | (at[:start] > at[end - 1])
    rows = np.flatnonzero(kept)
    return rows[np.argsort(at[rows], kind="stable")]


def with_unknown(what: str, values: npt.NDArray[np.float64], rows: Codes) -> npt.NDArray[np.float64]:
    """The values of these rows; of a counter NaN where the clock was set: how fast it rose there is not known."""
    found = values[rows]
    if what.endswith("_total") and len(jumps := np.flatnonzero(np.diff(rows) != 1)):
        found[jumps] = np.nan
    return found


def series_of(table: pa.Table, *, events: bool = False) -> Iterator[Series]:
    """Rows grouped by what and subject, each in the order of time; by codes, never by strings."""
    if not table.num_rows:
        return
    what, subject, source, text = (table[name].combine_chunks() for name in ("what", "subject", "source", "text"))
    names = [column.dictionary.to_pylist() for column in (what, subject, source, text)]
    codes = [_codes(column) for column in (what, subject, source, text)]
    at, values = _seconds(table["at"].to_numpy()), table["value"].to_numpy()
    key = codes[0] * (len(names[1]) + 1) + codes[1]
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    # Of all groups at once: most are of a few rows, and each call of numpy costs as much as a row.
    sources, texts, starts = codes[2][order], codes[3][order], edges[:-1]
    one_source = (np.minimum.reduceat(sources, starts) == np.maximum.reduceat(sources, starts)).tolist()
    has_text = (np.maximum.reduceat(texts, starts) >= 0).tolist()
    as_read = bool((np.diff(at) >= 0).all())  # unless the clock was set back, or lines of a log are among them
    for (start, end), alike, worded in zip(pairwise(edges.tolist()), one_source, has_text, strict=True):
        written = order[start:end]
        what_said = names[0][codes[0][written[0]]]
        placed = slice(None) if as_read else in_order(at[written], events=events)
        rows = written[placed]
        with_text = np.flatnonzero(codes[3][rows] >= 0).tolist() if worded else ()
        yield Series(
            what=what_said,
            subject=names[1][codes[1][rows[0]]],
            at=at[rows],
            values=values[rows] if isinstance(placed, slice) else with_unknown(what_said, values[written], placed),
            until=float(at[rows[-1]]),
            sources=tuple(names[2][code] or "" for code in (sources[start : start + 1] if alike else codes[2][rows])),
            texts={place: names[3][codes[3][rows[place]]] for place in with_text},
        )


def _seconds(ns: Codes) -> npt.NDArray[np.float64]:
    """Not by one division, which would first round 19 digits to 16."""
    found: npt.NDArray[np.float64] = ns // 1_000_000_000 + (ns % 1_000_000_000) / 1e9
    return found


def _codes(column: pa.DictionaryArray) -> Codes:
    codes: Codes = filled(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def timeline_of(
    tables: Mapping[str, pa.Table],
    gives: Mapping[str, Sequence[str]],
    samples: Callable[[Mapping[int, str]], ReadSamples | None],
    span: Span | None = None,
) -> Timeline:
    """What signs need, out of the rows of whole segments: every series and event, with every sample time.

    The one reader of rows, from disk and from memory. `samples` makes what reads the samples, given paths of cgroups.
    """
    series: dict[tuple[str, str], Series] = {}
    unseen: dict[tuple[str, str], Series] = {}
    cgroups: dict[int, str] = {}
    for kind in ("series", "events"):
        whole = tables[kind]
        # These are written once a segment, maybe before the span began: a cgroup's path, and what is not seen.
        cgroups |= cgroup_paths(whole) if kind == "events" else {}
        unseen |= {(one.what, one.subject): one for one in series_of(only(whole, UNSEEN))}
        series |= {(one.what, one.subject): one for one in series_of(cut(whole, span), events=kind == "events")}
    looks = looks_of(series, unseen, gives)
    rest = (one for (what, _), one in series.items() if what not in (LOOKED, UNSEEN))
    return Timeline((held(one, looks.get(one.what)) for one in rest), looks, samples(cgroups))


def looks_of(
    series: Mapping[tuple[str, str], Series],
    unseen: Mapping[tuple[str, str], Series],
    gives: Mapping[str, Sequence[str]],
) -> dict[str, Series]:
    """For each thing that probes give, when it was sampled, and when that worked."""
    looks: dict[str, Series] = {}
    for probe, whats in gives.items():
        looked = series.get((LOOKED, f"probe:{probe}"))
        if looked is None:
            continue
        for what in whats:
            one = replace(_with_unseen(looked, unseen.get((UNSEEN, what))), subject=what)
            looks[what] = one if what not in looks else _merged(looks[what], one)
    return looks


def _with_unseen(looked: Series, unseen: Series | None) -> Series:
    if unseen is None:
        return looked
    # Whether something can be read holds until the next note about it.
    place = np.searchsorted(unseen.at, looked.at, side="right") - 1
    missed = np.where(place >= 0, np.nan_to_num(unseen.values[np.maximum(place, 0)]), 0.0) * (looked.values > 0)
    texts, sources = dict(looked.texts), list(looked.sources) * (len(looked) if len(looked.sources) == 1 else 1)
    for index in np.flatnonzero(missed > 0):
        said = unseen.reading(int(place[index]))
        texts[int(index)], sources[index] = said.text, said.source
    return replace(looked, values=np.where(missed == 1, 0.0, looked.values), sources=tuple(sources), texts=texts)


def _merged(one: Series, other: Series) -> Series:
    """Two probes that give the same thing."""
    both = [it.reading(place) for it in (one, other) for place in range(len(it))]
    both.sort(key=lambda reading: reading.at)
    return replace(
        one,
        at=np.array([it.at for it in both]),
        values=np.array([it.value for it in both]),
        until=max(one.until, other.until),
        sources=tuple(it.source for it in both),
        texts={place: it.text for place, it in enumerate(both) if it.text},
    )


def held(one: Series, looks: Series | None) -> Series:
    """A value holds to the last sample that could read it."""
    seen = looks.at[looks.values > 0] if looks is not None else np.empty(0)
    return replace(one, until=max(one.until, float(seen[-1]))) if len(seen) else one
