"""A recording in memory: what probes read and when, in columns, until it is needed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zombiescope.core import Blind, Reading, Span
from zombiescope.core.timeline import ReadSamples, Series, Timeline

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class _Column:
    at: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    sources: list[str] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)

    def add(self, at: float, value: float, source: str, text: str) -> None:
        if text:
            self.texts[len(self.at)] = text
        if not self.sources:
            self.sources.append(source)
        elif len(self.sources) > 1 or self.sources[0] != source:
            # Most series have one source; only those that change need a list.
            self.sources.extend(self.sources[:1] * (len(self.at) - len(self.sources)))
            self.sources.append(source)
        self.at.append(at)
        self.values.append(value)

    def series(self, what: str, subject: str, until: float) -> Series:
        """Sorted by time: a probe may report the past (a log, a counter with its own clock)."""
        at, values = np.array(self.at), np.array(self.values)
        sources, texts = self.sources, self.texts
        if np.any(at[1:] < at[:-1]):
            order = np.argsort(at, kind="stable")
            at, values = at[order], values[order]
            texts = {new: texts[int(old)] for new, old in enumerate(order) if int(old) in texts}
            if len(sources) > 1:
                sources = [sources[int(old)] for old in order]
        return Series(
            what=what,
            subject=subject,
            at=at,
            values=values,
            until=max(until, float(at[-1])),
            sources=tuple(sources),
            texts=texts,
        )


@dataclass(frozen=True, slots=True)
class _TapeSamples:
    """All samples and stacks of a tape: one part."""

    batches: dict[str, list[pa.RecordBatch]]

    @property
    def span(self) -> Span:
        return Span(float("-inf"), float("inf"))

    def stacks(self) -> tuple[pa.Table | None, bool]:
        return self._table("stacks"), True

    def samples(self, columns: Sequence[str]) -> pa.Table | None:
        table = self._table("samples")
        return None if table is None else table.select(columns)

    def _table(self, kind: str) -> pa.Table | None:
        import pyarrow as pa

        return pa.Table.from_batches(self.batches[kind]) if self.batches[kind] else None


class Tape:
    """Takes readings, sample times and stacks in; gives a Timeline."""

    began = 0  # a tape has one segment

    def __init__(self) -> None:
        self.hz = 0
        self._batches: dict[str, list[pa.RecordBatch]] = {"samples": [], "stacks": []}
        self._series: dict[tuple[str, str], _Column] = {}
        self._looks: dict[str, _Column] = {}

    def add(self, reading: Reading) -> None:
        column = self._series.get((reading.what, reading.subject))
        if column is None:
            column = self._series[reading.what, reading.subject] = _Column()
        column.add(reading.at, reading.value, reading.source, reading.text)

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:  # noqa: ARG002
        """Note that all of `gives` was sampled, and which of it could not be read.

        What is missing for one subject only still counts as read; the reason is kept with the sample.
        """
        missed = {blind.what: blind for blind in unseen}
        for what in gives:
            blind = missed.get(what)
            seen = blind is None or bool(blind.subject)
            column = self._looks.setdefault(what, _Column())
            column.add(at, float(seen), blind.source if blind else "", blind.why if blind else "")

    def chunk(self, kind: str, columns: Mapping[str, Any]) -> None:
        """Samples or stacks, column by column, kept as a journal writes them."""
        from zombiescope.recorder.segment import as_batch

        self._batches[kind].append(as_batch(kind, columns))

    def timeline(self) -> Timeline:
        looks = {what: column.series("looked", what, 0.0) for what, column in self._looks.items()}
        return Timeline(
            (
                column.series(what, subject, _last_seen(looks.get(what)))
                for (what, subject), column in self._series.items()
            ),
            looks,
            self._reader() if self._batches["samples"] else None,
        )

    def _reader(self) -> ReadSamples:
        """Of what is on the tape now."""
        from zombiescope.recorder.layout import CGROUP
        from zombiescope.recorder.sample_reader import SampleReader

        part = _TapeSamples({kind: list(batches) for kind, batches in self._batches.items()})
        said = [(subject, column) for (what, subject), column in self._series.items() if what == CGROUP]
        paths = {int(value): subject.removeprefix("cgroup:") for subject, column in said for value in column.values}
        return SampleReader([part], hz=self.hz, cgroups=paths)


def _last_seen(looks: Series | None) -> float:
    seen = looks.at[looks.values > 0] if looks is not None else np.empty(0)
    return float(seen[-1]) if len(seen) else 0.0
