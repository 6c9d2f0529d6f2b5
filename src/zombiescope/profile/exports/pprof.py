"""pprof, gzipped: for `go tool pprof`, Parca, Pyroscope and Grafana.

Labels are texts: `cpu`, `comm`, `pid`, `cgroup`. Parca and Pyroscope leave numeric ones out, and a core 0 written as a
number cannot be chosen at all. (`go tool pprof -tagfocus='cpu=^1$'`: a bare 1 would be taken for a range of numbers.)
A difference is written as `go tool pprof -diff_base` makes it: the baseline's samples, scaled, are negative and carry
the label `pprof::base`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import IO

import numpy as np

from zombiescope.profile.chosen import Chosen
from zombiescope.profile.kernel_files import file_of
from zombiescope.profile.picture import Picture, shown
from zombiescope.profile.wire import message, number, packed

SUFFIX, BINARY, COMPARES = ".pb.gz", True, True
_BASE = "pprof::base"
_SECOND = 1_000_000_000


class _Texts:
    """The table of strings; the first is empty."""

    def __init__(self) -> None:
        self._places = {"": 0}

    def __call__(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)


def write(picture: Picture, out: IO[bytes]) -> None:
    # Without a name and a time in the gzip header, the same profile gives the same bytes.
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as packed_out:
        for part in _parts(picture):
            packed_out.write(part)


def unlabelled(picture: Picture, start: int, end: int) -> bytes:
    """Of all samples, not packed, and without labels: servers make a series of each set of them."""
    return b"".join(_parts(picture, span=(start, end), labelled=False))


def _parts(picture: Picture, *, span: tuple[int, int] | None = None, labelled: bool = True) -> Iterator[bytes]:
    """The fields of the message, the string table last: by then all strings are known."""
    capture, texts = picture.capture, _Texts()
    timed = capture.unit == "nanoseconds"
    yield message(1, number(1, texts("samples")) + number(2, texts("count")))
    if timed or capture.hz:
        yield message(1, number(1, texts("cpu")) + number(2, texts("nanoseconds")))
    yield from _samples(picture, picture.chosen, texts, 1.0, labelled=labelled)
    if picture.baseline is not None:
        yield from _samples(picture, picture.baseline, texts, -picture.scale)
    yield from _places(picture, texts)
    if capture.clock == "unix":
        start = capture.start if picture.chosen.start is None else picture.chosen.start
        end = capture.end if picture.chosen.end is None else picture.chosen.end
        start, end = span or (start, end)
        yield number(9, start) + number(10, max(end - start, 0))
    if capture.hz:
        yield message(11, number(1, texts("cpu")) + number(2, texts("nanoseconds")))
        yield number(12, round(_SECOND / capture.hz))
    yield number(14, texts("cpu" if timed else "samples"))
    for text in texts:
        yield message(6, text.encode())


def _samples(
    picture: Picture, chosen: Chosen, texts: _Texts, scale: float, *, labelled: bool = True
) -> Iterator[bytes]:
    """Samples with the same stack, thread and core are merged; without labels those with the same stack."""
    capture = picture.capture
    rows = chosen.rows(capture)
    threads, cores = len(capture.whos), int(capture.cpu.max(initial=-1)) + 2  # a core that is unknown is -1
    key = capture.stack[rows].astype(np.int64) * threads * cores
    if labelled:
        key += capture.who[rows].astype(np.int64) * cores + capture.cpu[rows] + 1
    keys, which = np.unique(key, return_inverse=True)
    # As floats: exact up to 2^53, a hundred days of nanoseconds.
    weights = np.bincount(which, capture.weight[rows], len(keys)).astype(np.float64)
    values = [weights]
    if capture.unit == "nanoseconds":
        values = [np.bincount(which, minlength=len(keys)).astype(np.float64), weights]
    elif capture.hz:
        values = [weights, weights * (_SECOND / capture.hz)]
    told = [(value * scale).round().astype(np.int64).tolist() for value in values]
    base = _label(texts, _BASE, "true") if scale < 0 else b""
    labels = [_labels(texts, it.comm, it.pid, it.cgroup) + base for it in capture.whos]
    on_core = [b"", *(_label(texts, "cpu", str(core)) for core in range(cores - 1))]
    frames, last, locations = capture.frames, -1, b""
    for place, found in enumerate(keys.tolist()):
        pair, core = divmod(found, cores)
        stack, who = divmod(pair, threads)
        if stack != last:
            of = frames.of[frames.starts[stack] : frames.starts[stack + 1]].tolist()
            last, locations = stack, packed(1, (it + 1 for it in reversed(of)))
        values_of = packed(2, [value[place] for value in told])
        yield message(2, locations + values_of + (labels[who] + on_core[core] if labelled else b""))


def _labels(texts: _Texts, comm: str, pid: int, cgroup: str) -> bytes:
    body = _label(texts, "comm", shown(comm))
    if pid >= 0:
        body += _label(texts, "pid", str(pid))
    return body + (_label(texts, "cgroup", shown(cgroup)) if cgroup else b"")


def _label(texts: _Texts, key: str, text: str) -> bytes:
    return message(3, number(1, texts(key)) + number(2, texts(text)))


def _places(picture: Picture, texts: _Texts) -> Iterator[bytes]:
    """A location and a function for each function; a mapping for each file. All are numbered from 1, in order."""
    mappings: dict[str, int] = {}
    locations = []
    for place, function in enumerate(picture.capture.frames.functions, 1):
        file = file_of(function)
        mapping = mappings.setdefault(shown(file), len(mappings) + 1) if file else 0
        locations.append(message(4, number(1, place) + number(2, mapping) + message(4, number(1, place))))
        name = texts(shown(function.name))
        locations.append(
            message(
                5, number(1, place) + number(2, name) + number(3, name) + number(4, texts(shown(file)) if file else 0)
            )
        )
    for file, place in mappings.items():
        # has_functions: no tool needs to look for symbols
        yield message(3, number(1, place) + number(5, texts(file)) + number(7, 1))
    yield from locations
