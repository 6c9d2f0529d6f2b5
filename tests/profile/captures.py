"""Small captures for tests, written down as rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zombiescope.core.samples import Frames, Function, Samples, Who

Row = tuple[int, int, Who, tuple[Function, ...], int]  # at, cpu, who, stack (outermost first), weight


def of_busy_cores(
    at: np.ndarray,
    cpu: np.ndarray,
    who: np.ndarray,
    stack: np.ndarray,
    *,
    whos: Sequence[Who],
    frames: Frames,
    hz: float,
) -> Samples:
    """Samples of a clock, in unix time; none is of an idle core, and which thread ran is not known."""
    return Samples(
        at=at.astype(np.int64),
        cpu=cpu.astype(np.int32),
        tid=np.full(len(at), -1, np.int32),
        who=who.astype(np.int32),
        stack=stack.astype(np.int32),
        weight=np.full(len(at), round(1e9 / hz), np.int64),
        whos=whos,
        idle=np.zeros(len(frames), np.bool_),
        name=lambda: frames,
        unit="nanoseconds",
        clock="unix",
        hz=hz,
    )


def capture(rows: Sequence[Row], *, unit: str = "samples", idle: Sequence[tuple[Function, ...]] = ()) -> Samples:
    rows = sorted(rows, key=lambda row: row[0])
    whos = sorted({row[2] for row in rows})
    stacks = sorted({row[3] for row in rows})
    functions = sorted({function for stack in stacks for function in stack})
    flat = [functions.index(function) for stack in stacks for function in stack]
    frames = Frames(
        functions=functions,
        of=np.array(flat, np.int32),
        starts=np.cumsum([0, *(len(stack) for stack in stacks)]),
    )
    return Samples(
        at=np.array([row[0] for row in rows], np.int64),
        cpu=np.array([row[1] for row in rows], np.int32),
        tid=np.array([row[2].pid for row in rows], np.int32),
        who=np.array([whos.index(row[2]) for row in rows], np.int32),
        stack=np.array([stacks.index(row[3]) for row in rows], np.int32),
        weight=np.array([row[4] for row in rows], np.int64),
        whos=whos,
        idle=np.array([stack in idle for stack in stacks], np.bool_),
        name=lambda: frames,
        unit=unit,
    )
