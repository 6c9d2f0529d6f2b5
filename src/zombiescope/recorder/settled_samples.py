"""The samples and the stacks of one settled head, in columns: what a reader takes, and what is written to disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core import Span
from zombiescope.recorder.distinct_stacks import CodedStacks
from zombiescope.recorder.rows import Words
from zombiescope.recorder.sample_reader import Columns
from zombiescope.recorder.stack_names import StackNames

ALWAYS = Span(float("-inf"), float("inf"))


class SettledSamples:
    """In `chunks` stacks and threads' names are numbers: of `names`, and places in `comms`."""

    def __init__(self, chunks: Sequence[dict[str, npt.NDArray[Any]]], names: StackNames, comms: Iterable[str]) -> None:
        self.chunks, self.names = chunks, names
        self.comms = [it.encode("utf-8", "backslashreplace").decode() for it in comms]

    @property
    def span(self) -> Span:
        return ALWAYS

    @property
    def times(self) -> tuple[int, int] | None:
        """Of the first sample and the last."""
        if not self.chunks:
            return None
        return min(int(it["at"].min()) for it in self.chunks), max(int(it["at"].max()) for it in self.chunks)

    def stacks(self) -> tuple[CodedStacks, bool]:
        rows = self.names.kept()
        codes, lengths, kernel = self.names.coded(rows)
        words = [it.decode() for it in self.names.words()]
        return CodedStacks(self.names.ids[rows], codes, lengths, kernel, words), True

    def samples(self, columns: Sequence[str]) -> Columns | None:
        return {name: self._column(name) for name in columns} if self.chunks else None

    def _column(self, name: str) -> npt.NDArray[Any] | Words:
        if name == "weight":  # 0: one period of the rate
            return np.concatenate([it.get(name, np.zeros(len(it["at"]), np.int64)) for it in self.chunks])
        column = np.concatenate([it[name] for it in self.chunks])
        if name == "comm":
            return Words(column.astype(np.int32, copy=False), self.comms)
        return self.names.ids[column] if name == "stack" else column
