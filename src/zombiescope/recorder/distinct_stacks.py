"""The distinct stacks of a recording: found by their ids, named when names are asked for.

The same stacks come again in every segment, and their ids are hashes of their content: each is kept and named once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Frames, Function, Ints, Mask
from zombiescope.profile.perf_data_records import spread

Ids = npt.NDArray[np.uint64]


class Stacks(Protocol):
    """The stacks of one segment, as they were read."""

    @property
    def ids(self) -> Ids: ...

    def only(self, rows: Ints) -> Stacks:
        """Some of them, by number."""

    def coded(self) -> CodedStacks:
        """With functions by number."""


class CodedStacks(NamedTuple):
    """Stacks whose functions are numbers: places in `words`."""

    ids: Ids
    codes: npt.NDArray[Any]  # of all functions, one stack after the other, outermost first
    lengths: Ints  # of each stack
    kernel: npt.NDArray[Any]  # how many of its last functions are the kernel's
    words: Sequence[str]

    def only(self, rows: Ints) -> CodedStacks:
        begins = (np.cumsum(self.lengths) - self.lengths)[rows]
        codes = self.codes[spread(begins, self.lengths[rows])]
        return CodedStacks(self.ids[rows], codes, self.lengths[rows], self.kernel[rows], self.words)

    def coded(self) -> CodedStacks:
        return self


_NONE = np.zeros(1, np.int64)
_LOST = CodedStacks(_NONE.astype(np.uint64), _NONE, np.ones(1, np.int64), _NONE, ["[lost]"])


class DistinctStacks:
    """A stack's place is that of its id among all in order, so it changes as more are learnt; its number stays."""

    def __init__(self) -> None:
        self.ids: Ids = np.empty(0, np.uint64)  # in order
        self._number: Ints = np.empty(0, np.int64)  # of each id; 0 is what a damaged file lost
        self._unnamed: list[Stacks] = [_LOST]
        self._functions: dict[tuple[str, bool], int] = {}  # by name, and whether it is the kernel's
        self._frames = Frames(functions=[], of=np.empty(0, np.int32), starts=np.zeros(1, np.int64))

    def learn(self, stacks: Stacks) -> Ids:
        """Take the stacks of one segment in; their ids, in order."""
        own, first = np.unique(stacks.ids, return_index=True)
        fresh = self.places(own) == len(self.ids)
        if fresh.any():
            self._unnamed.append(stacks if fresh.sum() == len(stacks.ids) else stacks.only(first[fresh]))
            ids = self._unnamed[-1].ids
            numbers = np.arange(len(ids)) + len(self.ids) + 1
            whole = np.concatenate([self.ids, ids])
            order = np.argsort(whole)
            self.ids, self._number = whole[order], np.concatenate([self._number, numbers])[order]
        return own

    def places(self, ids: Ids) -> Ints:
        """Where stacks are in `ids`; just after the last for one that no segment knows."""
        if not len(self.ids):
            return np.zeros(len(ids), np.int64)
        found: Ints = np.searchsorted(self.ids, ids)
        found[self.ids[np.minimum(found, len(self.ids) - 1)] != ids] = len(self.ids)
        return found

    def among(self, ids: Ids, good: Mask) -> Mask:
        """Which of many ids are at a good place. Mostly few places are, and only those are searched."""
        wanted = self.ids[good[:-1]]
        if good[-1] or not len(wanted):
            return good[self.places(ids)]
        found: Mask = wanted[np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)] == ids
        return found

    def numbers(self, places: Ints) -> Ints:
        """What `frames` calls the stacks at these places."""
        return np.append(self._number, 0)[places]

    def frames(self) -> Frames:
        """All of them, by number."""
        if self._unnamed:
            named = [self._named(it.coded()) for it in self._unnamed]
            self._unnamed = []
            lengths = np.concatenate([np.diff(self._frames.starts), *(it for _, it in named)])
            self._frames = Frames(
                functions=[_function(*it) for it in self._functions],
                of=np.concatenate([self._frames.of, *(it for it, _ in named)]),
                starts=np.append(0, np.cumsum(lengths)),
            )
        return self._frames

    def _named(self, stacks: CodedStacks) -> tuple[npt.NDArray[np.int32], Ints]:
        """The functions of all its stacks, one stack after the other, and how many each has."""
        lengths, names, known = stacks.lengths, stacks.words, self._functions
        left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(stacks.codes))  # from this one to the leaf
        kernel = left <= np.repeat(stacks.kernel.astype(np.int64), lengths)
        codes, which = np.unique(stacks.codes.astype(np.int64) * 2 + kernel, return_inverse=True)
        numbers = [known.setdefault((names[code // 2], bool(code % 2)), len(known)) for code in codes.tolist()]
        return np.array(numbers, np.int32)[which], lengths


def _function(name: str, kernel: bool) -> Function:
    """The kernel's symbol table has a module's name after the function's: "nf_conntrack_in [nf_conntrack]"."""
    plain, _, module = name.partition(" [") if kernel else (name, "", "")
    return Function(plain, kernel, module.removesuffix("]"))
