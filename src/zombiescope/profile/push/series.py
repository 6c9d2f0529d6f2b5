"""Samples as a few series, each with its labels: one for each workload, and for each accused core of it.

Servers keep a series for each set of labels and allow some thousand of them, so a node sends only a few: those with
most time, the rest together. A thread's name is its stack's outermost function, not a label. Kernel threads, and
interrupts on cores that had nothing else to do (`swapper`), are sent like everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core.samples import Frames, Function, Ints, Mask, Samples, Who
from zombiescope.profile.picture import shown

MOST_SERIES = 24  # of one node: Pyroscope allows 5,000 in all, enough for 200 nodes then
MOST_CORES = 4  # accused ones that get series of their own
MOST_STACKS = 8_000  # distinct ones in one push: Pyroscope takes 16,000 of one profile
LEFT_OUT = Function("[left out: the rarest stacks]", kernel=False)
Workload = Callable[[str], Mapping[str, str]]  # the labels of what runs in a cgroup, by its path


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """What has the same labels. Its samples have the thread's name in their stacks, and nothing else of its owner."""

    labels: Mapping[str, str]
    samples: Samples
    start: int  # nanoseconds since 1970
    end: int

    @property
    def service(self) -> str:
        """What the servers list it under."""
        space, name = self.labels.get("namespace", ""), self.labels.get("container") or self.labels.get("pod", "")
        return "/".join(filter(None, (space, name))) or self.labels.get("unit") or "node"


def series_of(
    samples: Samples, span: tuple[int, int], workload: Workload, accused: Sequence[int], most_stacks: int = MOST_STACKS
) -> list[Series]:
    """Of the busy samples within a span, in nanoseconds; those with most time first."""
    start, end = span
    busy = samples.only(np.flatnonzero(samples.busy & (samples.at >= start) & (samples.at < end)))
    if not len(busy):
        return []
    labels, group = _groups(busy, workload, accused)
    threads = [_thread(who.comm) for who in busy.whos]
    names = sorted(set(threads))
    place_of = {name: place for place, name in enumerate(names)}
    thread = np.array([place_of[it] for it in threads], np.int64)[busy.who]
    pair = (group * len(names) + thread) * len(busy.frames) + busy.stack
    kept = _heaviest(pair, busy.weight, most_stacks)
    weights = np.bincount(group, busy.weight, len(labels))
    found = []
    for place in np.argsort(-weights, kind="stable").tolist():
        rows = np.flatnonzero(group == place)
        if len(rows):
            part = _rooted(busy.only(rows), thread[rows], names, kept[rows])
            found.append(Series(labels[place], part, start, end))
    return found


def _groups(samples: Samples, workload: Workload, accused: Sequence[int]) -> tuple[list[Mapping[str, str]], Ints]:
    """Each series' labels, and of each sample the place of its series; the last series has no labels: the rest."""
    by_path = {path: {key: shown(value) for key, value in workload(path).items()} for path in _paths(samples)}
    keys = {path: tuple(sorted(it.items())) for path, it in by_path.items()}
    workloads = sorted(set(keys.values()))
    place_of = {it: place for place, it in enumerate(workloads)}
    of_who = np.array([place_of[keys[it.cgroup]] for it in samples.whos], np.int64)
    cores = sorted(accused)[:MOST_CORES]
    core = np.zeros(len(samples), np.int64)
    for number, cpu in enumerate(cores, 1):
        core[samples.cpu == cpu] = number
    group = of_who[samples.who] * (len(cores) + 1) + core
    weights = np.bincount(group, samples.weight, len(workloads) * (len(cores) + 1))
    largest = [it for it in np.argsort(-weights, kind="stable")[: MOST_SERIES - 1].tolist() if weights[it]]
    place = np.full(len(weights), len(largest), np.int64)
    place[largest] = np.arange(len(largest))
    labels: list[Mapping[str, str]] = []
    for it in largest:
        which, number = divmod(it, len(cores) + 1)
        labels.append(dict(workloads[which]) | ({"cpu": str(cores[number - 1])} if number else {}))
    return [*labels, {}], place[group]


def _paths(samples: Samples) -> set[str]:
    return {who.cgroup for who in samples.whos}


def _thread(comm: str) -> str:
    return "swapper" if comm.startswith("swapper/") else shown(comm)


def _heaviest(pair: Ints, weight: Ints, most: int) -> Mask:
    """Which samples have one of the stacks in which most time was spent."""
    distinct, which = np.unique(pair, return_inverse=True)
    keeps = np.ones(len(distinct), np.bool_)
    if len(distinct) > most:
        keeps[np.argsort(-np.bincount(which, weight), kind="stable")[most:]] = False
    kept: Mask = keeps[which]
    return kept


def _rooted(samples: Samples, thread: Ints, names: Sequence[str], kept: Mask) -> Samples:
    """The same samples with the thread's name as the outermost function; stacks that are not kept become one."""
    frames = samples.frames
    pairs = np.where(kept, thread * len(frames) + samples.stack, -1)
    distinct, stack = np.unique(pairs, return_inverse=True)
    functions = [LEFT_OUT, *(Function(name, kernel=False) for name in names), *frames.functions]
    of: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = []
    for it in distinct.tolist():
        if it < 0:
            of.append(np.zeros(1, np.int32))
            continue
        who, which = divmod(it, len(frames))
        own = frames.of[frames.starts[which] : frames.starts[which + 1]] + (1 + len(names))
        of.append(np.append(np.int32(1 + who), own).astype(np.int32))
    starts = np.append(0, np.cumsum([len(it) for it in of])).astype(np.int64)
    whole = Frames(functions=functions, of=np.concatenate(of), starts=starts)
    made = whole.only(np.arange(len(distinct)))
    return replace(
        samples,
        stack=stack.astype(np.int32),
        who=np.zeros(len(samples), np.int32),
        whos=[Who(-1, "")],
        idle=np.zeros(len(distinct), np.bool_),
        name=lambda: made,
        name_some=None,
    )
