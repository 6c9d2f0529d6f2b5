"""A recording, or any part of it, back into a Timeline. Reads what is intact; reports what is damaged.

Needs nothing of the machine it was recorded on, and may run on another architecture. It may come from a stranger: only
regular files are opened, and what would unpack to more than a recorder writes is refused before it is unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from zombiescope.core import Span, UserError, amount
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.arrow_functions import chosen, sound
from zombiescope.recorder.arrow_stream import Extent, extent
from zombiescope.recorder.before import PAST, REACH, held, logs_of, told
from zombiescope.recorder.layout import (
    CGROUP,
    FIRST,
    HEAD_FILE,
    LAST,
    META,
    OWN_PROCESS,
    file_name,
    is_segment,
)
from zombiescope.recorder.meta import is_recording, open_regular, read_meta
from zombiescope.recorder.raw_heads import RawHeads
from zombiescope.recorder.rows import Rows, joined, place_of, timeline_of
from zombiescope.recorder.sample_reader import Columns, SampleReader
from zombiescope.recorder.schemas import SCHEMAS, WITHOUT_WEIGHT
from zombiescope.recorder.segment import TableOfStacks, rows_of, samples_of

MOST_SEGMENTS = 50_000  # two months of two minutes each
MOST_FILE = 1 << 30  # bytes, unpacked: two minutes of 192 cores at 999 Hz are 900 MB of samples
MOST_TOTAL = 4 << 30  # bytes, unpacked, of what is held in memory at once
MOST_SCHEMA = 1 << 14  # bytes: where the description of the columns ends


@dataclass(slots=True)
class Recording:
    """An opened recording: cheap to open, segments are read when they are needed."""

    folder: str
    meta: dict[str, Any]
    segments: list[str]
    damage: list[str] = field(default_factory=list)  # what could not be read, and why
    torn: set[str] = field(default_factory=set)  # files that end in the middle of a batch, or are damaged there
    _times: dict[tuple[str, str], Span | None] = field(default_factory=dict)
    _unpacked: dict[tuple[str, str], int] = field(default_factory=dict)  # bytes of each file that was read
    _heads: RawHeads = field(init=False)

    def __post_init__(self) -> None:
        self._heads = RawHeads(self.folder, self.meta)

    def table(self, kind: str, span: Span | None = None) -> pa.Table:
        """All rows of one kind, or those within a span, in the order they were written."""
        table = self._whole_segments(kind, span)
        if span is None or "at" not in table.column_names:
            return table
        at = table["at"].to_numpy()
        return chosen(table, (at >= span.start * 1e9) & (at <= span.end * 1e9))

    def _whole_segments(self, kind: str, span: Span | None) -> pa.Table:
        tables, size = [], 0
        for segment in self._within(span, kind):
            table = self._read(segment, kind)
            if table is not None:
                tables.append(table)
                size += self._unpacked[segment, kind]
            self._refuse_if_large(size)
        return pa.concat_tables(tables).unify_dictionaries() if tables else pa.table({})

    def _refuse_if_large(self, size: int) -> None:
        if size > MOST_TOTAL:
            raise UserError(
                f"{self.folder}: more than {amount(MOST_TOTAL)} when unpacked: choose a part with --from and --to"
            )

    def timeline(self, span: Span | None = None) -> Timeline:
        """What signs need: every series and event, with every sample time; the stacks when they are needed.

        A part begins with what held then, as a look of that time would.
        """
        tables = partial(self._rows, None) if span is None else partial(self._part, span)
        return timeline_of(tables, self._gives, partial(self._sample_reader, span), span)

    @property
    def _gives(self) -> Mapping[str, Sequence[str]]:
        found: Mapping[str, Sequence[str]] = self.meta.get("gives", {})
        return found

    def _rows(self, span: Span | None, kind: str) -> Rows:
        return rows_of(self._whole_segments(kind, span))

    def _part(self, span: Span, kind: str) -> Rows:
        whole, start = self._rows(span, kind), round(max(span.start, 0.0) * 1e9)
        inside = (whole.at > start) & (whole.at <= span.end * 1e9)
        if kind == "series":
            before = held(self._earlier(span, kind, REACH), start, self._gives)
        else:
            for what in (CGROUP, OWN_PROCESS):  # said once a segment
                inside |= whole.what.codes == place_of(what, whole.what.words)
            before = told(self._earlier(span, kind, PAST), start, self._gives, logs_of(self.meta))
        return joined([before, whole.chosen(inside)])

    def _earlier(self, span: Span, kind: str, reach: float) -> Iterator[Callable[[Set[str]], Rows]]:
        """The rows of segments with so many seconds before, the newest first; given the probes that are asked for."""
        own = self._within(span, kind)  # where the clock was set, names say nothing
        for segment, following in zip(reversed(self.segments), ["inf", *reversed(self.segments)], strict=False):
            if segment in own or (float(segment) <= span.start and float(following) >= span.start - reach):
                yield partial(self._rows_of_probes, segment, kind)

    def _rows_of_probes(self, segment: str, kind: str, probes: Set[str]) -> Rows:
        """All that a settled segment has; of a raw one those that are asked for, as its samples take long to settle."""
        raw = self._heads.readings(segment, kind, probes)
        table = self._read(segment, kind) if raw is None else None
        return raw or (joined(()) if table is None else rows_of(table))

    def _sample_reader(self, span: Span | None, cgroups: Mapping[int, str]) -> SampleReader:
        return SampleReader(
            [_SegmentSamples(self, it) for it in self._within(span, "samples")],
            hz=self.meta.get("hz") or 0,
            span=span,
            label=str(self.meta.get("node", "")),
            cgroups=cgroups,
            damage=self.damage,
        )

    @property
    def span(self) -> Span:
        """From the first row to the last, whatever the order of the segments: the clock may have been set."""
        said = {it: None if self._heads.size(it) else self._said(it, "series") for it in self.segments}
        silent = [segment for segment, span in said.items() if span is None]
        edges = [span for span in said.values() if span] + [
            edge for segment in dict.fromkeys((*silent[:1], *silent[-2:])) if (edge := self._edges(segment, "series"))
        ]
        return Span(min((it.start for it in edges), default=0.0), max((it.end for it in edges), default=0.0))

    def size(self, kind: str) -> int:
        """Bytes on disk of one kind; "head" is all that is not settled."""
        if kind == HEAD_FILE:
            return sum(map(self._heads.size, self.segments))
        paths = [
            os.path.join(self.folder, it, file_name(kind, head=head)) for it in self.segments for head in (False, True)
        ]
        return sum(os.path.getsize(path) for path in paths if os.path.exists(path))

    def _within(self, span: Span | None, kind: str) -> list[str]:
        if span is None:
            return self.segments
        spans = ((it, self.rows_span(it, kind)) for it in self.segments)
        return [name for name, it in spans if it.start <= span.end and it.end >= span.start]

    def rows_span(self, segment: str, kind: str) -> Span:
        """From its first row to its last, as the file says; if it does not, by the names of the segments.

        By name a segment lasts until the next one begins, give or take the second before it was opened.
        """
        found = None if self._heads.size(segment) else self._said(segment, kind)
        if found is None and self._heads.size(segment):
            found = self._edges(segment, kind)
        elif found is None and os.path.exists(os.path.join(self.folder, segment, file_name(kind, head=True))):
            found = self._times[segment, kind] = self._edges(segment, kind)
        if found is not None:
            return found
        following = self.segments[self.segments.index(segment) + 1 :]
        return Span(float(segment) - 2, float(following[0]) + 2 if following else float("inf"))

    def _said(self, segment: str, kind: str) -> Span | None:
        """The times in the schema of a finished file."""
        if (segment, kind) not in self._times:
            self._times[segment, kind] = None
            with suppress(OSError, pa.ArrowException, ValueError, KeyError, TypeError):
                with open_regular(os.path.join(self.folder, segment, file_name(kind, head=False))) as file:
                    said = pa.ipc.read_schema(pa.BufferReader(file.read(MOST_SCHEMA))).metadata
                self._times[segment, kind] = Span(int(said[FIRST]) / 1e9, int(said[LAST]) / 1e9)
        return self._times[segment, kind]

    def _edges(self, segment: str, kind: str) -> Span | None:
        """By reading all of it."""
        table = self._read(segment, kind)
        if table is None or not table.num_rows:
            return None
        at = table["at"].to_numpy()
        return Span(float(at.min()) / 1e9, float(at.max()) / 1e9)

    def _read(self, segment: str, kind: str, columns: Sequence[str] = ()) -> pa.Table | None:
        raw = self._heads.table(segment, kind)
        if raw is not None:
            for trouble in self._heads.damage:
                self._note(trouble)
            self._unpacked[segment, kind] = raw.nbytes
            return raw.select(columns) if columns else raw
        for head in (False, True):
            path = os.path.join(self.folder, segment, file_name(kind, head=head))
            try:
                with open_regular(path) as file:
                    # Python takes as much memory as it is asked to read.
                    content = file.read(min(os.fstat(file.fileno()).st_size, MOST_FILE) + 1)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.torn.add(path)
                self._note(f"{path}: {(error.strerror or str(error)).lower()}")
                continue
            found = extent(content)
            if max(len(content), found.unpacked) > MOST_FILE:
                raise UserError(
                    f"{path}: more than {amount(MOST_FILE)} when unpacked; two minutes take far less: refused"
                )
            self._unpacked[segment, kind] = found.unpacked
            if kind == "stacks":  # all that are distinct are kept
                self._refuse_if_large(sum(size for (_, it), size in self._unpacked.items() if it == kind))
            batches = list(self._whole_batches(content, found, path, kind, columns))
            if batches:
                return pa.Table.from_batches(batches).replace_schema_metadata(None)
        return None

    def _whole_batches(
        self, content: bytes, found: Extent, path: str, kind: str, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Batches up to the first that is torn: that is where the recorder was stopped."""
        damage = found.damage
        source = pa.BufferReader(pa.py_buffer(content).slice(0, found.end))
        try:
            schema = pa.ipc.read_schema(source)
            if not schema.equals(SCHEMAS[kind]) and not (kind == "samples" and schema.equals(WITHOUT_WEIGHT)):
                raise ValueError(f"not the columns of {kind}")
            wanted = [schema.get_field_index(name) for name in columns if name in schema.names]
            options = pa.ipc.IpcReadOptions(included_fields=wanted) if wanted else None
            source.seek(0)
            stream = pa.ipc.open_stream(source, options=options)
            while True:
                try:
                    batch = stream.read_next_batch()
                except StopIteration:
                    break
                batch.validate(full=True)
                yield sound(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            if found.end:  # else it was torn before its first message was complete
                damage = damage or str(error).splitlines()[0]
        if damage or found.torn:
            self.torn.add(path)
        if damage or (found.torn and not path.endswith(".head.arrows")):
            self._note(f"{path}: damaged after {source.tell():,} bytes: {(damage or 'it ends too early')[:120]}")

    def _note(self, trouble: str) -> None:
        if trouble not in self.damage:
            self.damage.append(trouble)


@dataclass(slots=True)
class _SegmentSamples:
    """The samples and stacks of one segment, read when they are asked for."""

    recording: Recording
    segment: str

    @property
    def span(self) -> Span:
        return self.recording.rows_span(self.segment, "samples")

    def stacks(self) -> tuple[TableOfStacks | None, bool]:
        path = os.path.join(self.recording.folder, self.segment, file_name("stacks", head=False))
        finished = self.recording._heads.size(self.segment) > 0 or os.path.exists(path)
        table = self.recording._read(self.segment, "stacks")
        whole = finished and path not in self.recording.torn
        return None if table is None else TableOfStacks(table), whole

    def samples(self, columns: Sequence[str]) -> Columns | None:
        table = self.recording._read(self.segment, "samples", columns)
        return None if table is None else samples_of(table)


def opened(folder: str) -> Recording:
    """Open a recording; an unknown format, a broken meta.json or more than anybody recorded is a UserError."""
    if not os.path.isdir(folder):
        raise UserError(
            f"{folder}: {'not a recording: it is not a folder' if os.path.exists(folder) else 'no such folder'}"
        )
    if not is_recording(folder):
        raise UserError(f"{folder}: not a recording: {META} is missing, or not a regular file")
    meta = read_meta(os.path.join(folder, META))
    with os.scandir(folder) as entries:
        there = (it.name for it in entries if is_segment(it.name) and it.is_dir())
        segments = sorted(islice(there, MOST_SEGMENTS + 1))
    if len(segments) > MOST_SEGMENTS:
        raise UserError(f"{folder}: more than {MOST_SEGMENTS:,} segments: refused")
    return Recording(folder, meta, segments)
