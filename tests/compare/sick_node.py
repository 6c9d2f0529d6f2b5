"""A node that does many things at its own times, and something known before each of a few events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tests.profile.captures import of_busy_cores

from zombiescope.core.samples import Frames, Function, Samples, Who
from zombiescope.core.timeline import Series, Timeline

T0 = 1_794_000_000.0
HZ = 50.0
PROCESSES = 20
STACKS_EACH = 12
SERIES = 40
CULPRIT = Who(4242, "agent", "/system.slice/agent.service")
_LEVELS = (("main", False), ("run", False), ("entry_SYSCALL_64", True), ("do_syscall_64", True))


def _frames(known: int) -> Frames:
    """Stacks of noise, and last the culprit's own: main, run, the kernel's entry, memory_stat_show, walk_all."""
    functions = [Function(name, kernel) for name, kernel in _LEVELS]
    culprit = [Function("memory_stat_show", True), Function("walk_all", True)]
    functions += [*culprit, *(Function(f"noise_{place}", bool(place % 2)) for place in range(known))]
    stacks = [[0, 1 + place % 3, 6 + place, 6 + (place * 7) % known] for place in range(known)]
    stacks.append([0, 1, 2, 3, 4, 5])
    flat = np.array([it for stack in stacks for it in stack], np.int32)
    starts = np.cumsum([0, *(len(stack) for stack in stacks)])
    return Frames(functions=functions, of=flat, starts=starts)


def sick_node(
    seed: int, causes: Sequence[float], *, minutes: float = 40, burst: float = 0.5, lasting: float = 8.0
) -> tuple[Timeline, Samples]:
    """For each cause, `lasting` seconds that end two seconds before it, the culprit takes `burst` of a core.

    All else has bursts of its own, some of them larger, and drifts; it knows nothing of the causes.
    """
    rng = np.random.default_rng(seed)
    length = minutes * 60
    whos = [*(Who(100 + it, f"noise{it}", "") for it in range(PROCESSES)), CULPRIT]
    times: list[npt.NDArray[np.float64]] = []
    who: list[npt.NDArray[np.int64]] = []
    stack: list[npt.NDArray[np.int64]] = []

    def ran(place: int, start: float, end: float, cores: float) -> None:
        count = rng.poisson(max(end - start, 0) * cores * HZ)
        times.append(rng.uniform(start, end, count))
        who.append(np.full(count, place))
        of_noise = place * STACKS_EACH + rng.integers(0, STACKS_EACH, count)
        stack.append(np.full(count, PROCESSES * STACKS_EACH) if place == PROCESSES else of_noise)

    for place in range(PROCESSES):
        ran(place, 0, length, 0.02 * rng.exponential())
        for start in rng.uniform(0, length, rng.poisson(length / 120)).tolist():
            ran(place, start, min(start + rng.exponential(15), length), rng.exponential(0.4))
    ran(PROCESSES, 0, length, 0.005)  # it is seen in quiet time too
    for at in causes:
        ran(PROCESSES, max(at - 2 - lasting, 0), at - 2, burst)
    when = np.concatenate(times)
    order = np.argsort(when)
    frames = _frames(PROCESSES * STACKS_EACH)
    times_ns, its = np.round((T0 + when[order]) * 1e9), np.concatenate(who)[order]
    cpu, ran_in = rng.integers(0, 4, len(when)), np.concatenate(stack)[order]
    capture = of_busy_cores(times_ns, cpu, its, ran_in, whos=whos, frames=frames, hz=HZ)
    capture = replace(capture, tid=np.array([whos[it].pid for it in its], np.int32))
    return Timeline(list(_noise(rng, length))), capture


def _noise(rng: np.random.Generator, length: float) -> list[Series]:
    """Gauges that wander and counters that climb, at one look a second."""
    at = T0 + np.arange(0.0, length)
    found = []
    for place in range(SERIES):
        steps = rng.normal(size=len(at))
        values = np.cumsum(steps) if place % 2 else np.cumsum(np.exp(np.convolve(steps, np.ones(20) / 5, "same")))
        what = f"gauge_{place}" if place % 2 else f"things_{place}_total"
        found.append(
            Series(what=what, subject="node", at=at, values=values, until=float(at[-1]), sources=(f"/proc/{what}",))
        )
    return found
