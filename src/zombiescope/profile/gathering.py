"""Collect samples one by one into columns: shared by the readers of text and of pprof."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Frames, Function, Ints, Mask, Origin, Samples, Who
from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.demangled import demangled
from zombiescope.profile.inlined import unfolded

MOST_FRAMES = 60_000_000  # of all distinct stacks: 240 MB. A tree of a few megabytes can have stacks of many gigabytes
MOST_SAMPLES = 20_000_000  # 40 bytes each: 800 MB. As text they would be some 8 GB
LONGEST_LINE = 16 << 20  # a folded stack of 1,024 frames of 8 KB is 8 MB; anything longer is not text
MOST_TOLD = 3  # lines not understood that are shown; the rest are only counted
LARGEST = (1 << 53) - 1  # weight of one sample: larger sums would not be exact (104 days of nanoseconds)
NOWHERE = Origin()


class Gathering:
    """Samples so far. Functions, stacks and threads are numbered when first seen."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._at, self._cpu, self._tid = array("q"), array("i"), array("i")
        self._who, self._stack, self._weight = array("i"), array("i"), array("q")
        self._functions: dict[Function, int] = {}
        self._whos: dict[Who, int] = {}
        self._stacks: dict[bytes, int] = {}
        self._frames, self._starts = array("i"), array("q", [0])
        self._odd: list[tuple[int, str]] = []
        self._odd_count = 0
        self._notes: list[str] = []

    def __len__(self) -> int:
        return len(self._at)

    @property
    def full(self) -> bool:
        return len(self._at) >= MOST_SAMPLES or len(self._frames) >= MOST_FRAMES

    def function(self, function: Function) -> int:
        name = demangled(function.name)  # perf does it, unless it was built without or told not to
        if name is not function.name:
            function = function._replace(name=name)
        return self._functions.setdefault(function, len(self._functions))

    def who(self, who: Who) -> int:
        return self._whos.setdefault(who, len(self._whos))

    def stack(self, functions: Sequence[int]) -> int:
        """The number of a stack of numbered functions, outermost first."""
        frames = array("i", functions)
        key = frames.tobytes()
        found = self._stacks.get(key)
        if found is None:
            found = self._stacks[key] = len(self._stacks)
            self._frames.extend(frames)
            self._starts.append(len(self._frames))
        return found

    def add(self, *, at: int, cpu: int, tid: int, who: int, stack: int, weight: int = 1) -> None:
        self._at.append(at)
        self._cpu.append(cpu)
        self._tid.append(tid)
        self._who.append(who)
        self._stack.append(stack)
        self._weight.append(min(weight, LARGEST))

    def note(self, text: str) -> None:
        self._notes.append(text)

    def odd(self, line: int, text: bytes | str) -> None:
        """A line that is not understood: it is left out, and noted."""
        self._odd_count += 1
        if len(self._odd) < MOST_TOLD:
            self._odd.append((line, text if isinstance(text, str) else named(text[:200])))

    def capture(
        self,
        *,
        unit: str = "samples",
        clock: str = "machine",
        hz: float = 0.0,
        origin: Origin = NOWHERE,
        parted: int | None = None,
        rows: Ints | None = None,
    ) -> Samples:
        """All samples, or these rows of them, by time. If no line is understood, an error names the first."""
        if not len(self) and self._odd:
            raise Unparsable(self.source, *self._odd[0])
        at = np.array(self._at, np.int64)
        order = np.argsort(at, kind="stable") if rows is None else rows[np.argsort(at[rows], kind="stable")]
        whole = Frames(
            functions=list(self._functions),
            of=np.array(self._frames, np.int32),
            starts=np.array(self._starts, np.int64),
        )
        frames = unfolded(whole)
        return Samples(
            at=at[order],
            cpu=np.array(self._cpu, np.int32)[order],
            tid=np.array(self._tid, np.int32)[order],
            who=np.array(self._who, np.int32)[order],
            stack=np.array(self._stack, np.int32)[order],
            weight=np.array(self._weight, np.int64)[order],
            whos=list(self._whos),
            idle=_idle(frames),
            name=lambda: frames,
            unit=unit,
            clock=clock,
            hz=hz,
            label=self.source,
            notes=tuple(self._told()),
            origin=origin,
            parted=parted,
        )

    def _told(self) -> Iterator[str]:
        yield from self._notes
        for line, text in self._odd:
            yield Unparsable(self.source, line, text).why
        if self._odd_count > len(self._odd):
            yield f"{self._odd_count - len(self._odd):,} more lines are not understood"
        if self.full:
            yield f"only the first {len(self):,} samples were read: more would not fit into memory"
        if not len(self):
            yield "it has no samples"


class Rounding:
    """Counts may be fractions. What one is rounded by is taken off the next, so that the sum stays what it is."""

    def __init__(self) -> None:
        self.fractions, self._left = 0, 0.0

    def __call__(self, count: float) -> int:
        if count == int(count):
            return int(count)
        self.fractions += 1
        whole = max(round(count + self._left), 0)
        self._left += count - whole
        return whole


def named(text: bytes) -> str:
    """Bytes as a str; bytes that are not UTF-8 are kept."""
    return text.decode("utf-8", "surrogateescape")


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of text in pieces, without line ends. One that is far too long is cut."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def _idle(frames: Frames) -> Mask:
    """Decided by the leaf alone. Where a function's kind is unknown (folded text), by its name."""
    by_function = np.array([(it.kernel or not it.module) and is_idle(it.name) for it in frames.functions], np.bool_)
    found = np.zeros(len(frames), np.bool_)
    filled = np.flatnonzero(np.diff(frames.starts))
    if len(filled):
        found[filled] = by_function[frames.of[frames.starts[filled + 1] - 1]]
    return found
