"""What a sign may ask of the stacks in a recording: who ran on which core, in which functions, and for how long.

Samples are many (a busy hour of 96 cores at 49 Hz is 17 million), so they stay where they are, in parts, until a
question is asked; an answer holds only the samples that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from zombiescope.core.model import Reading, Span

Frames = tuple[str, ...]  # outermost first: the program's own functions, then the kernel's
SOURCE = "$ perf record -a -g"
_NEAR = 1e-5  # seconds: a gap's end and its sample's time are the same clock, rounded once more
_COLUMNS = ("at", "cpu", "pid", "tid", "comm", "stack")


class Part(Protocol):
    """One stretch of a recording."""

    @property
    def span(self) -> Span: ...

    def frames(self) -> Mapping[int, Frames]:
        """Every stack that is sampled in this part, by its id."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of the samples: `at` in unix nanoseconds, `comm` as words."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Moments at which a core was found at work. Idle cores are not in it."""

    at: npt.NDArray[np.float64]  # unix seconds, sorted
    cpu: npt.NDArray[np.int64]
    pid: npt.NDArray[np.int64]
    tid: npt.NDArray[np.int64]
    comm: npt.NDArray[np.object_]  # the thread's name
    stack: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float64]  # seconds on a core that each stands for
    frames: Mapping[int, Frames]

    def __len__(self) -> int:
        return len(self.at)

    @property
    def seconds(self) -> float:
        """Time on a core that they stand for."""
        return float(self.weight.sum())

    def weighed(self, cpu: int, ends: npt.NDArray[np.float64], lengths: npt.NDArray[np.float64]) -> Samples:
        """With the samples that end a gap on a core standing for the whole gap.

        Where samples come by a timer, none comes while interrupts are off: the one that was due comes as soon as they
        are on again, with the stack of who had switched them off.
        """
        own = np.flatnonzero(self.cpu == cpu)
        if not len(own) or not len(ends):
            return self
        place = np.clip(np.searchsorted(self.at[own], ends - _NEAR), 0, len(own) - 1)
        ending = np.abs(self.at[own][place] - ends) < _NEAR
        weight = self.weight.copy()
        weight[own[place[ending]]] = lengths[ending]
        return replace(self, weight=weight)

    def only(self, mask: npt.NDArray[np.bool_]) -> Samples:
        parts = {name: getattr(self, name)[mask] for name in (*_COLUMNS, "weight")}
        return replace(self, **parts)

    def within(self, span: Span) -> Samples:
        return self.only((self.at >= span.start) & (self.at <= span.end))

    def where(self, wanted: Callable[[Frames], bool]) -> Samples:
        """Those whose stack is wanted; each distinct stack is judged once."""
        good = [stack for stack in np.unique(self.stack).tolist() if wanted(self.frames[stack])]
        return self.only(np.isin(self.stack, np.array(good, np.uint64)))

    def processes(self) -> list[tuple[str, int, Samples]]:
        """By process, the one with most time first: its name (the first thread's, if seen), its pid, its samples."""
        found = []
        for pid in np.unique(self.pid).tolist():
            own = self.only(self.pid == pid)
            first = own.comm[own.tid == pid]
            words, times = np.unique((first if len(first) else own.comm).astype(str), return_counts=True)
            found.append((str(words[times.argmax()]), int(pid), own))
        return sorted(found, key=lambda one: -one[2].seconds)

    def hottest(self) -> Frames:
        """The stack in which most time was spent."""
        if not len(self):
            return ()
        ids, which = np.unique(self.stack, return_inverse=True)
        return self.frames[int(ids[np.bincount(which, weights=self.weight).argmax()])]

    def reading(self, subject: str, what: str = "sampled_seconds") -> Reading:
        """As evidence: how long, and the stack that most of it was spent in, in the words of a flame graph."""
        return Reading(
            what=what,
            subject=subject,
            value=round(self.seconds, 4),
            at=float(self.at[0]) if len(self) else 0.0,
            source=SOURCE,
            text=";".join(self.hottest()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """All stacks of a recording, unread until they are asked for."""

    parts: Sequence[Part] = ()
    hz: float = 0.0

    def samples(
        self,
        span: Span | None = None,
        *,
        cpu: int | None = None,
        wanted: Callable[[Frames], bool] | None = None,
    ) -> Samples:
        """Those within a span, on one core, with a stack that is wanted; of the rest no more is read than it takes."""
        judged: dict[int, bool] = {}
        found = [one for part in self.parts for one in _of(part, span, cpu, wanted, judged)]
        columns = {
            name: np.concatenate([one[name] for one, _ in found]) if found else _EMPTY[name] for name in _COLUMNS
        }
        order = np.argsort(columns["at"], kind="stable")
        frames = {stack: it for _, known in found for stack, it in known.items()}
        weight = np.full(len(order), 1 / self.hz if self.hz else 0.0)
        return Samples(**{name: column[order] for name, column in columns.items()}, weight=weight, frames=frames)


def _of(
    part: Part, span: Span | None, cpu: int | None, wanted: Callable[[Frames], bool] | None, judged: dict[int, bool]
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Mapping[int, Frames]]]:
    if span is not None and (part.span.end < span.start or part.span.start > span.end):
        return
    frames = part.frames()
    if wanted is not None:
        # The same stacks come again in every part: each is judged once.
        judged |= {stack: wanted(it) for stack, it in frames.items() if stack not in judged}
        frames = {stack: it for stack, it in frames.items() if judged[stack]}
    if not frames:
        return
    # Stacks are few and samples are many: compare with places in a sorted list, not with one id after the other.
    stack = part.column("stack")
    ids = np.sort(np.array(list(frames), np.uint64))
    mask = ids[np.minimum(np.searchsorted(ids, stack), len(ids) - 1)] == stack
    if cpu is not None and mask.any():
        mask &= part.column("cpu") == cpu
    if not mask.any():
        return
    at = part.column("at") / 1e9
    if span is not None:
        mask &= (at >= span.start) & (at <= span.end)
    rest = {name: part.column(name)[mask] for name in ("cpu", "pid", "tid", "comm")}
    wide = {name: values if name == "comm" else values.astype(np.int64) for name, values in rest.items()}
    yield {"at": at[mask], "stack": stack[mask], **wide}, frames


_EMPTY: dict[str, npt.NDArray[Any]] = {
    "at": np.empty(0),
    "stack": np.empty(0, np.uint64),
    "comm": np.empty(0, np.object_),
    **dict.fromkeys(("cpu", "pid", "tid"), np.empty(0, np.int64)),
}
