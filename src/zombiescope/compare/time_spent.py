"""CPU time per window: of functions (own and total), of processes and of cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.compare.measures import Measure, Measured
from zombiescope.compare.quiet_time import Windows
from zombiescope.core.samples import Ints, Mask, Samples
from zombiescope.core.timeline import Floats
from zombiescope.derived.sampled_processes import process_names

MOST_FUNCTIONS = 500  # by time: the last of them has far less than the least that is shown
MOST_PROCESSES = 200
_SECOND = 1_000_000_000
_PIECE = 100_000_000  # nanoseconds: a sample that stands for more is spread over the time it stands for
_NAMELESS = {"[unknown]", "[lost]", ""}


class Profile:
    """The samples within the windows, and the distinct functions of each stack."""

    def __init__(self, capture: Samples, windows: Windows) -> None:
        self.capture, self.windows = capture, windows
        self.unit = "cores" if capture.unit == "nanoseconds" or capture.hz else "samples/s"
        scale = 1 / _SECOND if capture.unit == "nanoseconds" else 1 / capture.hz if capture.hz else 1.0
        weight = capture.weight.astype(np.float64) * (scale / windows.seconds)
        weight[~capture.busy] = 0.0
        long = np.flatnonzero(capture.weight > _PIECE) if capture.unit == "nanoseconds" else np.empty(0, np.int64)
        self._pieces_at, self._pieces_of, self._pieces = _in_pieces(capture, long, weight)
        weight[long] = 0.0
        self._weight = weight
        self.processes = processes(capture)
        frames = capture.frames
        owners = np.repeat(np.arange(len(frames)), np.diff(frames.starts))
        pairs = np.unique(owners * max(len(frames.functions), 1) + frames.of)
        self.function = pairs % max(len(frames.functions), 1)  # of each pair of a stack and a function in it
        self.count = np.bincount(pairs // max(len(frames.functions), 1), minlength=len(frames))
        deep = np.diff(frames.starts) > 0
        self.leaf = np.full(len(frames), -1, np.int64)  # the innermost function of each stack
        self.leaf[deep] = frames.of[frames.starts[1:][deep] - 1]
        edges = np.round(np.stack([windows.starts, windows.starts + windows.seconds]) * _SECOND).astype(np.int64)
        self._rows = np.searchsorted(capture.at, edges)
        self._own_pieces = np.searchsorted(self._pieces_at, edges)

    def window(self, place: int) -> tuple[Ints, Floats]:
        """The samples in a window: their places, and what each stands for (in cores over the window)."""
        rows = np.arange(*self._rows[:, place])
        pieces = slice(*self._own_pieces[:, place])
        return (
            np.concatenate([rows, self._pieces_of[pieces]]),
            np.concatenate([self._weight[rows], self._pieces[pieces]]),
        )

    def of_samples(self, places: Ints) -> Floats:
        """What each sample stands for, averaged over some windows."""
        found = np.zeros(len(self.capture))
        for place in places.tolist():
            rows, weight = self.window(place)
            np.add.at(found, rows, weight)
        return found / max(len(places), 1)

    def by_stack(self, places: Ints) -> Floats:
        return _sums(self.capture.stack, self.of_samples(places), len(self.count))

    def stacks_of(self, function: int) -> Mask:
        """Which stacks a function is in."""
        found = np.zeros(len(self.count), np.bool_)
        found[np.repeat(np.arange(len(self.count)), self.count)[self.function == function]] = True
        return found

    def depth_of(self, function: int, by_stack: Floats) -> float:
        """How deep in its stacks a function is, on average."""
        frames = self.capture.frames
        there = np.flatnonzero(frames.of == function)
        stack = np.searchsorted(frames.starts, there, side="right") - 1
        weight = by_stack[stack]
        return float(np.average(there - frames.starts[stack], weights=weight)) if weight.sum() > 0 else 0.0

    def measured(self) -> Measured:
        """Every chosen thing in every window."""
        capture = self.capture
        spent = self.of_samples(np.arange(len(self.windows)))
        functions = self._functions(spent)
        names, process_of = self.processes
        processes = _largest(_sums(process_of[capture.who], spent, len(names)), MOST_PROCESSES)
        cores = np.unique(capture.cpu[capture.cpu >= 0]).astype(np.int64)
        called, own = self._columns(functions)
        process = _places(processes, len(names))[process_of]
        core = _places(cores, int(cores.max(initial=0)) + 1)
        sizes = np.array([len(functions), len(functions), len(processes), len(cores)])
        starts = np.cumsum(sizes) - sizes
        values = np.zeros((len(self.windows), int(sizes.sum())))
        for place, row in enumerate(values):
            samples, weight = self.window(place)
            inside, many = called.of(capture.stack[samples])
            row += _sums(inside, np.repeat(weight, many), len(row))
            cpu = np.where(capture.cpu[samples] >= 0, core[capture.cpu[samples]], -1)
            for start, column in zip(
                starts[1:].tolist(), (own[capture.stack[samples]], process[capture.who[samples]], cpu), strict=True
            ):
                known = column >= 0
                row += _sums(column[known] + start, weight[known], len(row))
        times = [(functions, "total"), (functions, "own")]
        measures = [self._function(place, what) for chosen, what in times for place in chosen.tolist()]
        subjects = [("process", f"process:{names[it]}") for it in processes.tolist()]
        subjects += [("core", f"cpu:{it}") for it in cores.tolist()]
        measures += [Measure(kind=kind, what="total", subject=it, unit=self.unit) for kind, it in subjects]
        return Measured(measures, values)

    def _functions(self, spent: Floats) -> Ints:
        """Those with most time, of those that have a name."""
        functions = self.capture.frames.functions
        by_stack = _sums(self.capture.stack, spent, len(self.count))
        totals = _sums(self.function, np.repeat(by_stack, self.count), len(functions))
        named = np.fromiter((it.name not in _NAMELESS for it in functions), np.bool_, len(functions))
        return _largest(np.where(named, totals, 0.0), MOST_FUNCTIONS)

    def _columns(self, functions: Ints) -> tuple[_Lists, Ints]:
        """For each stack the indices into `functions` of those in it, and of its innermost; -1 if that is none."""
        place = _places(functions, len(self.capture.frames.functions) + 1)  # the last for stacks without any frame
        kept = place[self.function] >= 0
        stack = np.repeat(np.arange(len(self.count)), self.count)[kept]
        lists = _Lists(place[self.function[kept]], np.bincount(stack, minlength=len(self.count)))
        return lists, place[self.leaf]

    def _function(self, place: int, what: str) -> Measure:
        name = self.capture.frames.functions[place].name
        return Measure(kind="function", what=what, subject=f"function:{name}", unit=self.unit, place=place)


class _Lists:
    """Lists of numbers, end to end."""

    def __init__(self, items: Ints, count: Ints) -> None:
        self._items, self._count, self._first = items, count, np.cumsum(count) - count

    def of(self, rows: npt.NDArray[np.int32]) -> tuple[Ints, Ints]:
        """The items of these lists, one list after the other, and how many each has."""
        many = self._count[rows]
        return self._items[np.repeat(self._first[rows] - (np.cumsum(many) - many), many) + np.arange(many.sum())], many


def processes(capture: Samples) -> tuple[list[str], Ints]:
    """Processes by name, and for each of `capture.whos` the index of its process.

    A process has the name of its first thread, if that was sampled. Processes of one name count as one: a service that
    crashes and restarts stays the same.
    """
    best = process_names(capture)
    called = [best.get(who.pid, who.comm) if who.pid >= 0 else who.comm for who in capture.whos]
    numbers: dict[str, set[int]] = {}
    for name, who in zip(called, capture.whos, strict=True):
        numbers.setdefault(name, set()).add(who.pid)
    names = {name: place for place, name in enumerate(numbers)}
    shown = [f"{name}[{next(iter(it))}]" if len(it) == 1 and max(it) > 0 else name for name, it in numbers.items()]
    return shown, np.array([names[name] for name in called], np.int64)


def _in_pieces(capture: Samples, long: Ints, weight: Floats) -> tuple[Ints, Ints, Floats]:
    """Samples that end a period without interrupts, split: the time of each piece, its sample, and its share."""
    many = -(-capture.weight[long] // _PIECE)
    back = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    at = np.repeat(capture.at[long], many) - back * _PIECE - _PIECE // 2
    share = np.repeat(weight[long] / np.maximum(many, 1), many)
    order = np.argsort(at, kind="stable")
    return at[order], np.repeat(long, many)[order], share[order]


def _largest(values: Floats, most: int) -> Ints:
    order = np.argsort(-values, kind="stable")[:most]
    found: Ints = np.sort(order[values[order] > 0])
    return found


def _places(chosen: Ints, many: int) -> Ints:
    """For each of `many` numbers its index among the chosen ones; -1 for the others."""
    found = np.full(many, -1, np.int64)
    found[chosen] = np.arange(len(chosen))
    return found


def _sums(places: npt.NDArray[np.integer[Any]], weight: Floats, many: int) -> Floats:
    found: Floats = np.bincount(places, weight, many).astype(np.float64, copy=False)
    return found
