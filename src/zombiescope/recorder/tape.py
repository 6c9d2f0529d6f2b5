"""Readings into a Timeline, without a recorder: for logs, and for tests that say in a few lines what a node did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zombiescope.core import Blind
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy
from zombiescope.recorder.in_memory import timeline_in_memory
from zombiescope.recorder.layout import KINDS, TROUBLE
from zombiescope.recorder.reading_rows import ReadingRows
from zombiescope.recorder.schemas import SCHEMAS
from zombiescope.recorder.segment import as_batch
from zombiescope.recorder.stack_series import EVENTS


class Tape:
    """Takes what a segment holds; gives the Timeline that the segment would give."""

    began = 0  # a tape has one segment

    def __init__(self, events: Iterable[str] | None = None) -> None:
        """`events`: what is an event and not a value that holds; else what the probes say."""
        self.hz = 0
        self._batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in KINDS}
        self._rows = ReadingRows(probe_events() if events is None else events)
        self._gives: dict[str, tuple[str, ...]] = {}
        self.add = self._rows.add

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        """Note that all of `gives` was sampled, and which of it could not be read."""
        # Whoever samples different things at different times is several probes.
        known = [it for it, what in self._gives.items() if what == tuple(gives) and it.partition("/")[0] == name]
        label = known[0] if known else f"{name}/{len(self._gives)}" if name in self._gives else name
        self._gives[label] = tuple(gives)
        self._rows.look(label, gives, at, unseen)

    def chunk(self, kind: str, columns: Mapping[str, Any]) -> None:
        """Samples or stacks, column by column."""
        self._batches[kind].append(as_batch(kind, columns))

    def timeline(self) -> Timeline:
        for kind, batch in self._rows.taken():
            self._batches[kind].append(batch)
        tables = {
            kind: pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries()
            for kind, batches in self._batches.items()
        }
        return timeline_in_memory(tables, self._gives, hz=self.hz)


def probe_events() -> set[str]:
    found = {what for probe in healthy("probes").values() for what in getattr(probe, "EVENTS", ())}
    return found | {*EVENTS, TROUBLE}
