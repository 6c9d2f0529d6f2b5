"""Small recordings for tests: a few lines say what a node did, and a Timeline comes out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zombiescope.conformance._quiet import BEGAN, ROOT, read_quiet
from zombiescope.core import Blind, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.probes.proc_stat import MODES
from zombiescope.recorder.tape import Tape

QUIET, T0 = ROOT, BEGAN


def read(what: str, subject: str, value: float, at: float, text: str = "") -> Reading:
    return Reading(what=what, subject=subject, value=value, at=T0 + at, source=f"/proc/{what}", text=text)


Sampled = tuple[float, int, str, str]  # when, on which core, "name[pid]", and its stack as a flame graph has it


def node(
    readings: Iterable[Reading],
    *,
    unseen: Mapping[str, str] | None = None,
    samples: Sequence[Sampled] = (),
    hz: int = 100,
) -> Timeline:
    """Every reading is a look at its series; `unseen` names what was looked for in vain, and why.

    With `samples` the stacks of all cores were sampled, `hz` times a second.
    """
    tape = Tape()
    if samples:
        readings = [*readings, *_taken(tape, samples, hz)]
    _say(tape, readings, unseen)
    return tape.timeline()


def _taken(tape: Tape, samples: Sequence[Sampled], hz: int) -> list[Reading]:
    tape.hz = hz
    stacks = {stack: number for number, stack in enumerate(dict.fromkeys(it[3] for it in samples), 1)}
    frames = {"frames": [tuple(it.split(";")) for it in stacks], "kernel_frames": [0] * len(stacks)}
    tape.chunk("stacks", {"stack": list(stacks.values()), **frames})
    pids = [int(it[2].rpartition("[")[2].rstrip("]")) for it in samples]
    columns = {
        "at": np.array([round((T0 + it[0]) * 1e9) for it in samples]),
        "cpu": np.array([it[1] for it in samples]),
        "pid": np.array(pids),
        "tid": np.array(pids),
        "comm": [it[2].rpartition("[")[0] for it in samples],
        "cgroup": np.zeros(len(samples), np.uint64),
        "stack": np.array([stacks[it[3]] for it in samples], np.uint64),
    }
    tape.chunk("samples", columns)
    last = max(it[0] for it in samples)
    taken = [read("samples_total", "node", value, at) for at, value in ((0.0, 0.0), (last, len(samples)))]
    return [*taken, *(read("kernel_symbols", "node", 1.0, at) for at in (0.0, last))]


def cores(spent: Mapping[int, list[Mapping[str, float]]], every: float = 0.25) -> list[Reading]:
    """What each core did in each look, by mode, as shares of the look; what is not named is idle."""
    readings = []
    for cpu, looks in spent.items():
        clock = dict.fromkeys(MODES, 1000.0)
        for place, shares in enumerate([{"idle": 0.0}, *looks]):
            for mode in MODES:
                share = shares.get(mode, 0.0) if mode != "idle" or place == 0 else 1.0 - sum(shares.values())
                clock[mode] += share * every
                readings.append(read(f"cpu_{mode}_seconds_total", f"cpu:{cpu}", clock[mode], place * every))
    return readings


def quiet_node(
    folder: Path,
    *,
    but: Sequence[Reading] = (),
    unseen: Mapping[str, str] | None = None,
    samples: Sequence[Sampled] = (),
    hz: int = 100,
) -> Timeline:
    """The recorded healthy node, read twice: ten seconds later its cores have idled and nothing else moved.

    What `but` and `unseen` speak of, and the stacks where `samples` are given, are not the healthy node's.
    """
    tape = Tape()
    said = [*but, *(_taken(tape, samples, hz) if samples else ())]
    said = [it for it in said if it.what not in (unseen or {})]
    other = _Without(tape, {it.what for it in said} | (unseen or {}).keys())
    read_quiet(other, folder)
    _say(tape, said, unseen)
    return tape.timeline()


class _Without:
    """A tape that does not hear of some series."""

    began = 0

    def __init__(self, tape: Tape, whats: Collection[str]) -> None:
        self._tape, self._whats = tape, whats

    def add(self, reading: Reading) -> None:
        if reading.what not in self._whats:
            self._tape.add(reading)

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        self._tape.look(name, [it for it in gives if it not in self._whats], at, unseen)

    def chunk(self, kind: str, columns: Mapping[str, Any]) -> None:
        self._tape.chunk(kind, columns)


def _say(tape: Tape, readings: Iterable[Reading], unseen: Mapping[str, str] | None) -> None:
    looks: dict[str, set[float]] = {}
    for reading in readings:
        tape.add(reading)
        looks.setdefault(reading.what, set()).add(reading.at)
    for what, times in looks.items():
        for at in sorted(times):
            tape.look("probe", (what,), at)
    for what, why in (unseen or {}).items():
        tape.look("probe", (what,), T0, [Blind(what=what, source=f"/proc/{what}", why=why)])
