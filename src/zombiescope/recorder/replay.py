"""A recording, or any part of it, back into a Timeline. Reads what is intact; reports what is damaged.

Needs nothing of the machine it was recorded on, and may run on another architecture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.core import Span, UserError
from zombiescope.core.timeline import Series, Timeline
from zombiescope.recorder.journal import LOOKED, UNSEEN
from zombiescope.recorder.layout import CGROUP, FORMAT, META, SCHEMAS, file_name, is_segment
from zombiescope.recorder.sample_reader import SampleReader

Codes = npt.NDArray[np.int64]


@dataclass(slots=True)
class Recording:
    """An opened recording: cheap to open, segments are read when they are needed."""

    folder: str
    meta: dict[str, Any]
    segments: list[str]
    damage: list[str] = field(default_factory=list)  # what could not be read, and why
    torn: set[str] = field(default_factory=set)  # files that end in the middle of a batch, or are damaged there

    def table(self, kind: str, span: Span | None = None) -> pa.Table:
        """All rows of one kind, or those within a span, in the order they were written."""
        return _cut(self._whole_segments(kind, span), span)

    def _whole_segments(self, kind: str, span: Span | None) -> pa.Table:
        tables = [table for segment in self._within(span) if (table := self._read(segment, kind)) is not None]
        return pa.concat_tables(tables).unify_dictionaries() if tables else pa.table({})

    def timeline(self, span: Span | None = None) -> Timeline:
        """What signs need: every series and event, with every sample time; the stacks when they are needed."""
        series: dict[tuple[str, str], Series] = {}
        cgroups: dict[int, str] = {}
        for kind in ("series", "events"):
            whole = self._whole_segments(kind, span)
            # A cgroup's path is written once a segment, maybe before the span began.
            cgroups |= _cgroups(whole) if kind == "events" else {}
            table = _cut(whole, span)
            if table.num_rows:
                series |= {(one.what, one.subject): one for one in _series(table)}
        looks = _looks(series, self.meta.get("gives", {}))
        rest = (one for (what, _), one in series.items() if what not in (LOOKED, UNSEEN))
        reader = SampleReader(
            [_SegmentSamples(self, *it) for it in self._spans(span).items()],
            hz=self.meta.get("hz") or 0,
            span=span,
            label=str(self.meta.get("node", "")),
            cgroups=cgroups,
            damage=self.damage,
        )
        return Timeline((_held(one, looks.get(one.what)) for one in rest), looks, reader)

    @property
    def span(self) -> Span:
        """From the first row to the last, by the first and the last segment alone."""
        times = [at for segment in (*self.segments[:1], *self.segments[-2:]) for at in self._edges(segment)]
        return Span(min(times, default=0.0), max(times, default=0.0))

    def size(self, kind: str) -> int:
        """Bytes on disk of one kind."""
        paths = [
            os.path.join(self.folder, it, file_name(kind, head=head)) for it in self.segments for head in (False, True)
        ]
        return sum(os.path.getsize(path) for path in paths if os.path.exists(path))

    def _edges(self, segment: str) -> list[float]:
        table = self._read(segment, "series")
        if table is None or not table.num_rows:
            return []
        at = table["at"].to_numpy()
        return [float(at.min()) / 1e9, float(at.max()) / 1e9]

    def _within(self, span: Span | None) -> list[str]:
        return list(self._spans(span))

    def _spans(self, span: Span | None) -> dict[str, Span]:
        """By name: a segment lasts until the next one begins, give or take the second before it was opened."""
        following = [*(float(name) for name in self.segments[1:]), float("inf")]
        spans = {name: Span(float(name) - 2, end + 2) for name, end in zip(self.segments, following, strict=True)}
        if span is None:
            return spans
        return {name: it for name, it in spans.items() if it.start <= span.end and it.end >= span.start}

    def _read(self, segment: str, kind: str, columns: Sequence[str] = ()) -> pa.Table | None:
        for head in (False, True):
            path = os.path.join(self.folder, segment, file_name(kind, head=head))
            try:
                with open(path, "rb") as file:
                    batches = list(self._whole_batches(file, path, kind, columns))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.torn.add(path)
                self._note(f"{path}: {(error.strerror or '').lower()}")
                continue
            if batches:
                return pa.Table.from_batches(batches)
        return None

    def _whole_batches(self, file: Any, path: str, kind: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches up to the first that is torn: that is where the recorder was stopped."""
        wanted = [SCHEMAS[kind].get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted) if wanted else None
        try:
            stream = pa.ipc.open_stream(file, options=options)
            while True:
                try:
                    batch = stream.read_next_batch()
                except StopIteration:
                    return
                batch.validate()
                yield batch
        except (pa.ArrowException, OSError, ValueError) as error:
            self.torn.add(path)
            if file.tell() < os.fstat(file.fileno()).st_size - 1 or not path.endswith(".head.arrows"):
                self._note(f"{path}: damaged after {file.tell():,} bytes: {str(error).splitlines()[0][:120]}")

    def _note(self, trouble: str) -> None:
        if trouble not in self.damage:
            self.damage.append(trouble)


@dataclass(slots=True)
class _SegmentSamples:
    """The samples and stacks of one segment, read when they are asked for."""

    recording: Recording
    segment: str
    span: Span

    def stacks(self) -> tuple[pa.Table | None, bool]:
        path = os.path.join(self.recording.folder, self.segment, file_name("stacks", head=False))
        finished = os.path.exists(path)
        table = self.recording._read(self.segment, "stacks")
        return table, finished and path not in self.recording.torn

    def samples(self, columns: Sequence[str]) -> pa.Table | None:
        return self.recording._read(self.segment, "samples", columns)


def is_recording(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, META))


def opened(folder: str) -> Recording:
    """Open a recording; an unknown format or a broken meta.json is a UserError."""
    path = os.path.join(folder, META)
    if not os.path.isdir(folder):
        raise UserError(
            f"{folder}: {'not a recording: it is not a folder' if os.path.exists(folder) else 'no such folder'}"
        )
    if not is_recording(folder):
        raise UserError(f"{folder}: not a recording: {META} is missing, or not a regular file")
    try:
        with open(path, encoding="utf-8") as file:
            meta = json.load(file)
        number = meta["format"]
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from error
    except (KeyError, TypeError):
        raise UserError(f"{path}: not of a recording: it has no format number") from None
    if number != FORMAT:
        raise UserError(f"{path}: recording format {number} is unknown; this version reads format {FORMAT}")
    return Recording(folder, meta, sorted(name for name in os.listdir(folder) if is_segment(name)))


def _cut(table: pa.Table, span: Span | None) -> pa.Table:
    if span is None or "at" not in table.column_names:
        return table
    at = table["at"].to_numpy()
    return table.filter(pa.array((at >= span.start * 1e9) & (at <= span.end * 1e9)))


def _cgroups(events: pa.Table) -> dict[int, str]:
    """The paths of cgroups, by number."""
    if not events.num_rows:
        return {}
    what = events["what"].combine_chunks()
    words = what.dictionary.to_pylist()
    if CGROUP not in words:
        return {}
    said = events.filter(pa.array(_codes(what) == words.index(CGROUP)))
    paths = (subject.removeprefix("cgroup:") for subject in said["subject"].to_pylist())
    return dict(zip(map(int, said["value"].to_pylist()), paths, strict=True))


def _series(table: pa.Table) -> Iterator[Series]:
    """Rows grouped by what and subject, each sorted by time; by codes, never by strings."""
    what, subject, source, text = (table[name].combine_chunks() for name in ("what", "subject", "source", "text"))
    names = [column.dictionary.to_pylist() for column in (what, subject, source, text)]
    codes = [_codes(column) for column in (what, subject, source, text)]
    at, values = table["at"].to_numpy() / 1e9, table["value"].to_numpy()
    key = codes[0] * (len(names[1]) + 1) + codes[1]
    order = np.lexsort((at, key))
    edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1))
    for start, end in pairwise(edges):
        rows = order[start:end]
        sources = codes[2][rows]
        with_text = np.flatnonzero(codes[3][rows] >= 0)
        one_source = bool((sources == sources[0]).all())
        yield Series(
            what=names[0][codes[0][rows[0]]],
            subject=names[1][codes[1][rows[0]]],
            at=at[rows],
            values=values[rows],
            until=float(at[rows[-1]]),
            sources=tuple(names[2][code] or "" for code in (sources[:1] if one_source else sources)),
            texts={int(place): names[3][codes[3][rows[place]]] for place in with_text},
        )


def _codes(column: pa.DictionaryArray) -> Codes:
    codes: Codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _looks(series: Mapping[tuple[str, str], Series], gives: Mapping[str, list[str]]) -> dict[str, Series]:
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
    missed = np.nan_to_num(replace(unseen, until=np.inf).sampled(looked.at))
    place = np.searchsorted(unseen.at, looked.at, side="right") - 1
    texts, sources = dict(looked.texts), [looked.reading(index).source for index in range(len(looked))]
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


def _held(one: Series, looks: Series | None) -> Series:
    """A value holds to the last sample that could read it."""
    seen = looks.at[looks.values > 0] if looks is not None else np.empty(0)
    return replace(one, until=max(one.until, float(seen[-1]))) if len(seen) else one
