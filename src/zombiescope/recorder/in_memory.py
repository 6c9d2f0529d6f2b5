"""The tables of a segment in memory, as a Timeline: by the same reader as those on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from zombiescope.core import Span
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.rows import timeline_of
from zombiescope.recorder.sample_reader import SampleReader

_ALWAYS = Span(float("-inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class _Part:
    """All samples and stacks."""

    tables: Mapping[str, pa.Table]

    @property
    def span(self) -> Span:
        return _ALWAYS

    def stacks(self) -> tuple[pa.Table | None, bool]:
        return self.tables["stacks"], True

    def samples(self, columns: Sequence[str]) -> pa.Table | None:
        return self.tables["samples"].select(columns)


def timeline_in_memory(
    tables: Mapping[str, pa.Table], gives: Mapping[str, Sequence[str]], *, hz: float, damage: Sequence[str] = ()
) -> Timeline:
    """`tables` by kind, `gives`: what each probe gives."""

    def samples(cgroups: Mapping[int, str]) -> SampleReader | None:
        if not tables["samples"].num_rows:
            return None
        return SampleReader([_Part(tables)], hz=hz, cgroups=cgroups, damage=damage)

    return timeline_of(tables, gives, samples)
