"""A file for speedscope: the whole machine first, with processes as outermost frames, then each core by time.

The format: speedscope.app/file-format-schema.json. Speedscope itself makes one profile of each thread out of perf's
text, and no view of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from zombiescope import __version__
from zombiescope.core.samples import Ints
from zombiescope.profile.kernel_files import file_of
from zombiescope.profile.picture import Picture, shown

SUFFIX, BINARY, COMPARES = ".speedscope.json", False, False
MOST_CORES = 512  # profiles: more cannot be browsed


def write(picture: Picture, out: IO[bytes]) -> None:
    capture = picture.capture
    comms = sorted({who.comm for who in capture.whos})
    frames: list[dict[str, str]] = [{"name": shown(comm)} for comm in comms]
    for function in capture.frames.functions:
        file = file_of(function)
        frames.append({"name": shown(function.name)} | ({"file": shown(file)} if file else {}))
    head = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"zombiescope {__version__}",
        "name": shown(capture.label),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
    }
    out.write(json.dumps(head).removesuffix("}").encode() + b', "profiles": [')
    for number, profile in enumerate(_profiles(picture, comms)):
        out.write((b",\n" if number else b"\n") + json.dumps(profile).encode())
    out.write(b"\n]}\n")


def _profiles(picture: Picture, comms: list[str]) -> Iterator[dict[str, Any]]:
    capture, rows = picture.capture, picture.rows
    comm_of = np.array([comms.index(who.comm) for who in capture.whos], np.int64)
    pair = comm_of[capture.who[rows]] * max(len(capture.frames), 1) + capture.stack[rows]
    weight = capture.weight[rows]
    distinct, which = np.unique(pair, return_inverse=True)
    sums = np.bincount(which, weight, len(distinct)).astype(np.int64)
    yield _profile(picture, len(comms), "whole machine", distinct, sums)
    cores = np.unique(capture.cpu[rows])
    for core in cores[cores >= 0].tolist()[:MOST_CORES]:
        its = capture.cpu[rows] == core
        order, its_weight = pair[its], weight[its]
        first = np.flatnonzero(np.diff(order, prepend=-1))  # equal samples in a row are merged
        yield _profile(picture, len(comms), f"core {core}", order[first], np.add.reduceat(its_weight, first))


def _profile(picture: Picture, comms: int, name: str, pairs: Ints, weights: Ints) -> dict[str, Any]:
    frames = picture.capture.frames
    samples = []
    for pair in pairs.tolist():
        comm, stack = divmod(pair, max(len(frames), 1))
        of = frames.of[frames.starts[stack] : frames.starts[stack + 1]].tolist()
        samples.append([comm, *(comms + function for function in of)])
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds" if picture.capture.unit == "nanoseconds" else "none",
        "startValue": 0,
        "endValue": int(weights.sum()),
        "samples": samples,
        "weights": weights.tolist(),
    }
