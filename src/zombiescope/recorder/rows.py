"""Rows of readings in columns, and out of them series, with what every probe could and could not read.

In memory rows are columns of numpy, with words by number. Arrow is for the disk alone: see segment.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core import Span
from zombiescope.core.timeline import ReadSamples, Series, Timeline
from zombiescope.kernel.columns import Column
from zombiescope.recorder.layout import CGROUP, LOOKED, UNSEEN

Codes = npt.NDArray[np.int64]
HOLE = 120.0  # seconds without a row: the clock was set, or nothing was recorded
MOST_SET = 1000  # times that a clock was set in one recording: more is no clock, and each one takes a pass


class Words(NamedTuple):
    """A column of words, each kept once."""

    codes: npt.NDArray[np.int32]  # places in `words`; -1 where there is none
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rows:
    """Readings, in the order they were written."""

    at: Codes  # nanoseconds
    what: Words
    subject: Words
    value: npt.NDArray[np.float64]
    source: Words
    text: Words

    def __len__(self) -> int:
        return len(self.at)

    def chosen(self, rows: npt.NDArray[Any]) -> Rows:
        """Some of them: by number, or those that are true."""
        what, subject, source, text = (it._replace(codes=it.codes[rows]) for it in self._words)
        return Rows(self.at[rows], what, subject, self.value[rows], source, text)

    @property
    def _words(self) -> tuple[Words, Words, Words, Words]:
        return self.what, self.subject, self.source, self.text


def coded(column: Sequence[str | None]) -> Words:
    codes: dict[str, int] = {}
    found = [-1 if word is None else codes.setdefault(word, len(codes)) for word in column]
    return Words(np.array(found, np.int32), list(codes))


def of_lists(lists: dict[str, list[Any]]) -> Rows:
    what, subject, source, text = (coded(lists[name]) for name in ("what", "subject", "source", "text"))
    return Rows(np.array(lists["at"], np.int64), what, subject, np.array(lists["value"]), source, text)


def of_columns(columns: Sequence[tuple[Column, npt.NDArray[np.int64], npt.NDArray[np.float64]]]) -> Rows:
    sizes = [len(values) for _, _, values in columns]

    def words(name: str) -> Words:
        own = coded([utf8(getattr(it, name)) for it, _, _ in columns])
        return own._replace(codes=np.repeat(own.codes, sizes))

    at, values = (np.concatenate([it[place] for it in columns]) for place in (1, 2))
    no_text = Words(np.full(len(at), -1, np.int32), ())
    return Rows(at, words("what"), words("subject"), values, words("source"), no_text)


def utf8(text: str) -> str:
    """Files of a segment hold UTF-8 only; other bytes are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def joined(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    at, value = (
        np.concatenate([np.empty(0, kind), *own])
        for kind, own in ((np.int64, [it.at for it in parts]), (np.float64, [it.value for it in parts]))
    )
    what, subject, source, text = (_one([it._words[place] for it in parts]) for place in range(4))
    return Rows(at, what, subject, value, source, text)


def _one(columns: Sequence[Words]) -> Words:
    known: dict[str, int] = {}
    parts = [np.empty(0, np.int32)]
    for column in columns:
        own = [known.setdefault(word, len(known)) for word in column.words]
        parts.append(np.array([*own, -1], np.int32)[column.codes])  # the last for what has none
    return Words(np.concatenate(parts), list(known))


def place_of(word: str, words: Sequence[str]) -> int:
    """Its code; one that no row has, if it is not among them."""
    return words.index(word) if word in words else -2


def only(rows: Rows, name: str) -> Rows:
    """The rows about one thing."""
    return rows.chosen(rows.what.codes == place_of(name, rows.what.words))


def cgroup_paths(events: Rows) -> dict[int, str]:
    """The paths of cgroups, by number."""
    said = only(events, CGROUP)
    paths = (said.subject.words[it].removeprefix("cgroup:") for it in said.subject.codes)
    return dict(zip(map(int, said.value.tolist()), paths, strict=True))


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


def series_of(table: Rows, *, events: bool = False) -> Iterator[Series]:
    """Rows grouped by what and subject, each in the order of time; by codes, never by strings."""
    if not len(table):
        return
    names = [it.words for it in (table.what, table.subject, table.source, table.text)]
    key = table.what.codes.astype(np.int64) * (len(names[1]) + 1) + table.subject.codes
    order = np.argsort(key, kind="stable")
    what, subject, source, text = (it.codes[order] for it in (table.what, table.subject, table.source, table.text))
    at, values = _seconds(table.at[order]), table.value[order]
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    # Nearly all were written in the order of time: those are parts of the columns as they are.
    earlier = np.setdiff1d(np.flatnonzero(np.diff(at) < 0) + 1, edges)
    unordered = set((np.searchsorted(edges, earlier, side="right") - 1).tolist())
    for number, (start, end) in enumerate(pairwise(edges.tolist())):
        own_at, own_values, sources, texts = at[start:end], values[start:end], source[start:end], text[start:end]
        what_said = names[0][what[start]]
        if number in unordered:
            placed = in_order(own_at, events=events)
            own_values = with_unknown(what_said, own_values, placed)
            own_at, sources, texts = own_at[placed], sources[placed], texts[placed]
        said = sources[:1].tolist() if end - start == 1 or (sources == sources[0]).all() else sources.tolist()
        with_text = np.flatnonzero(texts >= 0).tolist()
        yield Series(
            what=what_said,
            subject=names[1][subject[start]],
            at=own_at,
            values=own_values,
            until=float(own_at[-1]),
            sources=tuple([names[2][code] or "" for code in said]),
            texts={place: names[3][texts[place]] for place in with_text},
        )


def _seconds(ns: Codes) -> npt.NDArray[np.float64]:
    """Not by one division, which would first round 19 digits to 16."""
    found: npt.NDArray[np.float64] = ns // 1_000_000_000 + (ns % 1_000_000_000) / 1e9
    return found


def timeline_of(
    tables: Callable[[str], Rows],
    gives: Mapping[str, Sequence[str]],
    samples: Callable[[Mapping[int, str]], ReadSamples | None],
    span: Span | None = None,
) -> Timeline:
    """What signs need, out of rows: every series and event, with every sample time.

    The one reader of rows, from disk and from memory. `tables` gives those of a kind; `samples` makes what reads the
    samples, given paths of cgroups. Of a part of a recording, `span`, they also have what held when it began.
    """
    readings, events = tables("series"), tables("events")
    series = {(one.what, one.subject): one for one in series_of(readings)}
    series |= {(one.what, one.subject): one for one in series_of(events, events=True)}
    looks = looks_of(series, gives)
    rest = (one for (what, _), one in series.items() if what not in (LOOKED, UNSEEN))
    return Timeline((held(one, looks.get(one.what)) for one in rest), looks, samples(cgroup_paths(events)), span)


def looks_of(series: Mapping[tuple[str, str], Series], gives: Mapping[str, Sequence[str]]) -> dict[str, Series]:
    """For each thing that probes give, when it was sampled, and when that worked."""
    looks: dict[str, Series] = {}
    for probe, whats in gives.items():
        looked = series.get((LOOKED, f"probe:{probe}"))
        if looked is None:
            continue
        for what in whats:
            one = replace(_with_unseen(looked, series.get((UNSEEN, what))), subject=what)
            looks[what] = one if what not in looks else _merged(looks[what], one)
    return looks


def _with_unseen(looked: Series, unseen: Series | None) -> Series:
    if unseen is None:
        return looked
    # Whether something can be read holds until the next note about it.
    place = np.searchsorted(unseen.at, looked.at, side="right") - 1
    missed = np.where(place >= 0, np.nan_to_num(unseen.values[np.maximum(place, 0)]), 0.0) * (looked.values > 0)
    if not missed.any():  # so it is with nearly all
        return looked
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
