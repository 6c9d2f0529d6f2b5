"""Folded stacks: `process;function;kernel_function_[k] 42`, as FlameGraph's scripts, speedscope and others read them.

A difference has two columns, the baseline's first, as `difffolded.pl -n` writes them: the baseline is scaled to the
size of the other.

Made from the samples themselves, without a tree: stacks are told apart by a 64-bit sum of their names, and the text is
gathered from one table of all names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import IO, NamedTuple

import numpy as np

from zombiescope.core.samples import Frames, Ints
from zombiescope.profile.perf_data_records import Places, spread
from zombiescope.profile.picture import Picture, shown
from zombiescope.profile.repeats import distinct, sums_of_rows

SUFFIX, BINARY, COMPARES = ".folded", False, True
_AT_ONCE = 1 << 20  # bytes of text gathered at a time: eight times as much memory


class _Line(NamedTuple):
    """A column for each: the process's name, a stack that has these functions, how much now and before."""

    comm: Ints
    stack: Ints
    own: Ints
    was: Ints


def write(picture: Picture, out: IO[bytes]) -> None:
    frames, scale, compared = picture.capture.frames, picture.scale, picture.baseline is not None
    comms = sorted({who.comm for who in picture.capture.whos})
    names = _Names()
    of_comm = names.numbers(_name(it, kernel=False) for it in comms)
    of_function = names.numbers(b";" + _name(it.name, kernel=it.kernel) for it in frames.functions)
    lines = _lines(picture, comms, of_comm, of_function)

    @cache
    def counts(own: int, was: int) -> bytes:
        return b" %d %d\n" % (round(was * scale), own) if compared else b" %d\n" % own

    counted = names.numbers(map(counts, lines.own.tolist(), lines.was.tolist()))
    for text in names.texts(*_sequences(lines, frames, of_comm, of_function, counted)):
        out.write(text)


def _lines(picture: Picture, comms: Sequence[str], of_comm: Ints, of_function: Ints) -> _Line:
    """Stacks of the same names are one."""
    capture, frames = picture.capture, picture.capture.frames
    now, before = picture.rows, picture.rows_before
    rows, many = np.concatenate([now, before]), max(len(frames), 1)
    place = {comm: number for number, comm in enumerate(comms)}
    comm_of = np.fromiter((place[who.comm] for who in capture.whos), np.int64, len(capture.whos))
    pairs, which = distinct(comm_of[capture.who[rows]] * many + capture.stack[rows])
    comm, stack = pairs // many, pairs % many
    names = sums_of_rows(of_function[frames.of], frames.starts)[stack]
    names += sums_of_rows(of_comm, np.arange(len(comms) + 1))[comm]
    _, first, same = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)
    group = np.empty(len(order), np.int64)
    group[order] = np.arange(len(order))
    which = group[same.reshape(-1)][which]
    # Sums of integers in floats are exact up to 2^53: a hundred days of nanoseconds.
    own, was = (
        np.bincount(which[part], capture.weight[rows[part]], len(order)).astype(np.int64)
        for part in (slice(len(now)), slice(len(now), None))
    )
    kept = np.flatnonzero((own != 0) | (was != 0))
    first = first[order][kept]
    return _Line(comm[first], stack[first], own[kept], was[kept])


def _sequences(lines: _Line, frames: Frames, of_comm: Ints, of_function: Ints, counted: Ints) -> tuple[Ints, Places]:
    """The numbers of the names of all lines in a row, and where each line begins, and the last ends."""
    lengths = np.diff(frames.starts)[lines.stack]
    starts = np.append(0, np.cumsum(lengths + 2))
    found = np.empty(int(starts[-1]), np.int64)
    found[starts[:-1]] = of_comm[lines.comm]
    found[spread(starts[:-1] + 1, lengths)] = of_function[frames.of[spread(frames.starts[lines.stack], lengths)]]
    found[starts[1:] - 1] = counted
    return found, starts


class _Names:
    """Texts, each kept once and known by its number."""

    def __init__(self) -> None:
        self._number: dict[bytes, int] = {}

    def numbers(self, texts: Iterable[bytes]) -> Ints:
        known = self._number
        return np.array([known.setdefault(it, len(known)) for it in texts], np.int64)

    def texts(self, numbers: Ints, starts: Places) -> Iterable[bytes]:
        """What these numbers stand for, one after the other; some lines at a time."""
        letters = np.frombuffer(b"".join(self._number), np.uint8)
        lengths = np.fromiter(map(len, self._number), np.int64, len(self._number))
        begins = np.cumsum(lengths) - lengths
        ends = np.append(0, np.cumsum(lengths[numbers]))[starts]  # of each line, in bytes
        borders = np.append(np.searchsorted(ends, np.arange(0, int(ends[-1]), _AT_ONCE)), len(starts) - 1)
        for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            some = numbers[starts[first] : starts[last]]
            yield letters[spread(begins[some], lengths[some])].tobytes()


def _name(name: str, *, kernel: bool) -> bytes:
    """A semicolon would end the name: FlameGraph writes a colon in its place."""
    safe = shown(name).replace(";", ":").encode()
    return safe + b"_[k]" if kernel else safe
