"""Readings into a Timeline, without a recorder: for logs, and for tests that say in a few lines what a node did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zombiescope.core import Blind
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy
from zombiescope.recorder.layout import TROUBLE
from zombiescope.recorder.readings import ReadingRows
from zombiescope.recorder.rows import timeline_of
from zombiescope.recorder.sample_reader import SampleReader
from zombiescope.recorder.stack_series import EVENTS

if TYPE_CHECKING:
    import pyarrow as pa


class Tape:
    """Takes what a segment holds; gives the Timeline that the segment would give."""

    began = 0  # a tape has one segment

    def __init__(self, events: Iterable[str] | None = None) -> None:
        """`events`: what is an event and not a value that holds; else what the probes say."""
        self.hz = 0
        self._batches: dict[str, list[pa.RecordBatch]] = {"samples": [], "stacks": []}
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
        from zombiescope.recorder.segment import as_batch

        self._batches[kind].append(as_batch(kind, columns))

    def timeline(self) -> Timeline:
        return timeline_of(self._rows.of, self._gives, self._samples)

    def _samples(self, cgroups: Mapping[int, str]) -> SampleReader | None:
        if not self._batches["samples"]:
            return None
        from zombiescope.recorder.segment import TablePart

        return SampleReader([TablePart.of(**self._batches)], hz=self.hz, cgroups=cgroups)


def probe_events() -> set[str]:
    found = {what for probe in healthy("probes").values() for what in getattr(probe, "EVENTS", ())}
    return found | {*EVENTS, TROUBLE}
