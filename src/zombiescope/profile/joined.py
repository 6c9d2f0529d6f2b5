"""Several captures as one: a recorder that begins a new file every few minutes leaves many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from zombiescope.core.errors import UserError
from zombiescope.core.samples import COLUMNS, Frames, Function, Ints, Samples, Who


def joined(captures: Sequence[Samples], label: str) -> Samples:
    """All samples in order of time. They must have the same clock and unit."""
    first = captures[0]
    if len(captures) == 1:
        return first
    if any(it.parted is not None for it in captures):
        raise UserError("a difference of two profiles is opened alone: give only one SOURCE")
    for other in captures:
        if other.origin.measure != first.origin.measure:
            raise UserError(
                f"{other.label} and {first.label} cannot be joined: one has {other.origin.measure}, the other "
                f"{first.origin.measure}; choose one with --event or --value"
            )
        if (other.clock, other.unit) != (first.clock, first.unit):
            raise UserError(
                f"{other.label} and {first.label} cannot be joined: clocks {other.clock!r} and {first.clock!r}, "
                f"units {other.unit} and {first.unit}"
            )
    number: dict[Who, int] = {}
    columns = {name: [getattr(it, name) for it in captures] for name in COLUMNS}
    stacks = 0
    for place, capture in enumerate(captures):
        numbers = [number.setdefault(who, len(number)) for who in capture.whos]
        columns["who"][place] = np.array(numbers, np.int32)[capture.who]
        columns["stack"][place] = capture.stack + np.int32(stacks)
        stacks += len(capture.idle)
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(whole["at"], kind="stable")
    rows: dict[str, Any] = {name: column[order] for name, column in whole.items()}
    return Samples(
        **rows,
        whos=list(number),
        idle=np.concatenate([it.idle for it in captures]),
        name=partial(_frames, captures),
        name_some=partial(_frames, captures),
        unit=first.unit,
        clock=first.clock,
        hz=max(it.hz for it in captures),
        label=label,
        origin=first.origin,
        notes=tuple(f"{it.label}: {note}" for it in captures for note in it.notes),
    )


def _frames(captures: Sequence[Samples], wanted: Ints | None = None) -> Frames:
    """The frames of all; with `wanted`, as far as can be only those of these stacks."""
    number: dict[Function, int] = {}
    of, starts, end, stacks = [], [np.zeros(1, np.int64)], 0, 0
    for capture in captures:
        if wanted is None or capture.name_some is None:
            frames = capture.frames
        else:
            own = wanted[(wanted >= stacks) & (wanted < stacks + len(capture.idle))]
            frames = capture.name_some(own - stacks)
        stacks += len(capture.idle)
        numbers = [number.setdefault(function, len(number)) for function in frames.functions]
        of.append(np.array(numbers, np.int32)[frames.of])
        starts.append(frames.starts[1:] + end)
        end += len(frames.of)
    return Frames(functions=list(number), of=np.concatenate(of), starts=np.concatenate(starts))
