"""Samples of one hour, summed up on the node: time of each stack by ten minutes, of each function by the hour."""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.core import Span, harmless
from zombiescope.core.samples import SECOND
from zombiescope.core.timeline import Timeline
from zombiescope.fleet.hours import Hour
from zombiescope.fleet.schemas import LONGEST_TEXT, function_id, stack_id

WINDOW = 600  # seconds
MOST_ROWS = 6_000  # stacks of a process and window, those with most time: 93 % of all time is in half of the rows
MOST_FUNCTIONS = 5_000


def profile_tables(timeline: Timeline, hour: Hour, span: Span) -> dict[str, dict[str, Any]]:
    samples = timeline.samples(span)
    samples = samples.only(samples.busy) if len(samples) else samples
    if not len(samples):
        return {}
    frames = samples.frames
    ids = [function_id(_cut(it.name), _cut(it.module), kernel=it.kernel) for it in frames.functions]
    of_function = np.array(ids or [0], np.int64)
    seconds = samples.weight_seconds
    comms = {name: place for place, name in enumerate(dict.fromkeys(it.comm for it in samples.whos))}
    comm = np.array([comms[it.comm] for it in samples.whos], np.int64)[samples.who]
    window = np.clip((samples.at / SECOND - hour.start) // WINDOW, 0, 5).astype(np.int64)
    keys = np.stack([samples.stack.astype(np.int64), comm, window])
    rows, place = np.unique(keys, axis=1, return_inverse=True)
    spent = np.bincount(place.ravel(), seconds)
    kept = np.sort(np.argsort(-spent)[:MOST_ROWS])
    used = np.unique(rows[0][kept])
    lists = {int(it): of_function[frames.of[frames.starts[it] : frames.starts[it + 1]]] for it in used.tolist()}
    stack_ids = {it: stack_id(functions.tobytes()) for it, functions in lists.items()}
    names = list(comms)
    return {
        "samples": {
            "ts": hour.start + rows[2][kept] * WINDOW,
            "comm": [names[it] for it in rows[1][kept].tolist()],
            "stack": [stack_ids[it] for it in rows[0][kept].tolist()],
            "seconds": spent[kept].astype(np.float32),
        },
        "stacks": {"stack": list(stack_ids.values()), "functions": [it.tolist() for it in lists.values()]},
        **_functions(samples, of_function, seconds, hour),
    }


def _cut(name: str) -> str:
    return harmless(name, most=LONGEST_TEXT - 1)


def _functions(samples: Any, of_function: Any, seconds: Any, hour: Hour) -> dict[str, dict[str, Any]]:
    frames = samples.frames
    stack_time = np.bincount(samples.stack, seconds, minlength=len(frames))
    many = len(frames.functions)
    lengths = np.diff(frames.starts)
    filled = np.flatnonzero(lengths)
    own = np.bincount(frames.of[frames.starts[1:][filled] - 1], stack_time[filled], minlength=many)
    # A function that calls itself is on the stack once.
    once = np.unique(np.stack([np.repeat(np.arange(len(frames)), lengths), frames.of]), axis=1)
    total = np.bincount(once[1], stack_time[once[0]], minlength=many)
    chosen = np.argsort(-total)[:MOST_FUNCTIONS]
    chosen = chosen[total[chosen] > 0]
    known = [frames.functions[it] for it in range(many)]
    return {
        "functions": {
            "ts": np.full(len(chosen), hour.start),
            "function": of_function[chosen],
            "self_seconds": own[chosen].astype(np.float32),
            "total_seconds": total[chosen].astype(np.float32),
        },
        "function_names": {
            "function": of_function[:many],
            "name": [_cut(it.name) for it in known],
            "module": [_cut(it.module) for it in known],
            "kernel": [it.kernel for it in known],
        },
    }
