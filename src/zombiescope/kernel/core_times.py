"""What the stopwatch programs counted on each core: opened at tracepoints, read in rounds, kept within a budget.

Overhead: measured for softirqs on a virtual machine: 13 ns for a program and 60 ns for each reading of the clock, but
    80 ns for an event in all: most of it is the kernel's way from the tracepoint to the program. `every` is doubled
    until at most EXACT starts a second are timed exactly. Where there are more starts than `most`, they take turns.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import sub
from typing import NamedTuple

from zombiescope.kernel import stopwatch
from zombiescope.kernel.bpf import Array, PerCpuArray, Program
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.stopwatch import BINS, COUNTS, HEAD_BYTES, KIND_BYTES, ROUND, RUNS, SUM, TURN, WAITS, WORST
from zombiescope.kernel.turns import Turns

EXACT = 1_500  # starts a second timed exactly, on all cores together: 3 readings of the clock each, 0.03 % of a core
# Powers of two: one start in 8, so that the first round of a storm costs little; one in 1,024, as less would make the
# histogram of a quiet kind a matter of luck; and one in 16 until the rate is known.
LEAST, MOST, FIRST = 3, 10, 4
TABLES = {"waits": WAITS, "runs": RUNS}


class Times(NamedTuple):
    """One histogram of one core and kind, of one round: how many took from 2**i to 2**(i+1) microseconds."""

    table: str  # "waits" or "runs"
    core: int
    kind: str
    counts: tuple[int, ...]
    worst: float  # seconds
    total: float  # seconds, of all together


class Round(NamedTuple):
    """What happened in the `seconds` since the last one; shorter than stopwatch.LONG, one in `every` was timed."""

    seconds: float
    every: int
    times: list[Times]


class CoreTimes(Closing):
    """Programs at tracepoints, and what they count, from now until closed."""

    def __init__(
        self, cores: Sequence[int], kinds: Sequence[str], programs: Mapping[str, Callable[..., bytes]], *, most: float
    ) -> None:
        """`programs`: tracepoint to what assembles its program; attached in this order.

        `most`: starts a second on the average; where there are more, they are timed in a part of the time.
        """
        self._turns = Turns(self._attach, self._detach, most=most)
        self._last_raw, self._last = b"", memoryview(b"").cast("Q")
        with ExitStack() as undo:
            self._times = undo.enter_context(
                PerCpuArray(HEAD_BYTES + len(kinds) * KIND_BYTES, "zombie_times", len(cores))
            )
            self._places = list(_places(cores, kinds, self._times.size))
            self._said = undo.enter_context(Array(stopwatch.SAID_BYTES, "zombie_said"))
            places = {"times": self._times.descriptor, "said": self._said.descriptor, "kinds": len(kinds)}
            self._programs = {
                tracepoint: undo.enter_context(Program(assemble(**places), tracepoint))
                for tracepoint, assemble in programs.items()
            }
            self._bits, self._round = FIRST, 0
            self._turns.begin()
            self._stack = undo.pop_all()

    def close(self) -> None:
        self._stack.close()

    def read(self) -> Round | None:
        """The round that ends now; None while the programs rest."""
        if self._turns.resting():
            return None
        seconds = time.monotonic() - self._turns.began
        raw = self._times.read()
        words = memoryview(raw).cast("Q")
        found = Round(seconds, 1 << self._bits, list(self._changed(raw, words)))
        starts = sum(words[at + TURN // 8] - self._last[at + TURN // 8] for _, _, at in self._places)
        self._last_raw, self._last = raw, words
        rate = starts / max(seconds, 1e-3)
        self._bits = next((bits for bits in range(LEAST, MOST) if rate / (1 << bits) <= EXACT), MOST)
        self._say()
        self._turns.end_round(starts)
        return found

    def _attach(self) -> None:
        self._times.clear()
        self._last_raw = self._times.read()
        self._last = memoryview(self._last_raw).cast("Q")
        self._say()
        for tracepoint, program in self._programs.items():
            program.attach(tracepoint)

    def _detach(self) -> None:
        for program in self._programs.values():
            program.detach()

    def _say(self) -> None:
        self._round += 1
        self._said.write(struct.pack("=QQ", (1 << self._bits) - 1, self._round))

    def _changed(self, raw: bytes, words: memoryview[int]) -> Iterator[Times]:
        for core, kind, start in self._places:
            for table, offset in TABLES.items():
                at = start + offset // 8
                first, end = at + COUNTS // 8, at + COUNTS // 8 + BINS
                if raw[8 * first : 8 * end] == self._last_raw[8 * first : 8 * end]:
                    continue
                counts = tuple(map(sub, words[first:end], self._last[first:end]))
                # An event just after the last round was read may have noted its time for that round.
                noted = words[at + WORST // 8] / 1e9 if words[at + ROUND // 8] == self._round else 0.0
                least = (1 << max(place for place in range(BINS) if counts[place])) / 1e6
                total = (words[at + SUM // 8] - self._last[at + SUM // 8]) / 1e9
                yield Times(table, core, kind, counts, max(noted, least), total)


def _places(cores: Sequence[int], kinds: Sequence[str], size: int) -> Iterator[tuple[int, str, int]]:
    """Each core and kind, with the word where it begins; each core has `size` bytes."""
    for number, core in enumerate(cores):
        for index, kind in enumerate(kinds):
            yield core, kind, (number * size + HEAD_BYTES + index * KIND_BYTES) // 8
