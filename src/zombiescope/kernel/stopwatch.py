"""The eBPF programs that time what a core does: from a start to an end, into a histogram for each core and kind.

Reading the clock is what costs (60 ns on a virtual machine; all the rest of a program some 10 ns). So only one start in
`every` is timed exactly; it counts for all of them. The others are timed by the kernel's tick, which costs one load:
of each tick on a core the first event reads the clock, and those after it take that time. That is wrong by a tick at
most, so from `LONG` on every single one is counted, and shorter ones are sampled.
"""

from __future__ import annotations

from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R7, R8, Assembler, Helper

BINS = 28  # powers of two of microseconds: the last begins at 134 s, beyond LONGEST
LONG_BIN = 14
LONG = 1000 << LONG_BIN  # ns, 16 ms: more than a tick at 100 Hz
LONGEST = 36  # bits of ns, 69 s: longer is no wait but a core that was offline in between
# Words of a core's value: the last tick seen and its time; then, for each kind, how many starts, when it was raised and
# entered, and two histograms, each with its sum, the longest since the reader's last round, and that round.
TICK, TICK_NS = 0, 8
HEAD_BYTES = 16
TURN, RAISED, ENTERED, WAITS = 0, 8, 16, 24
WORST, ROUND, SUM, COUNTS = 0, 8, 16, 24
TABLE_BYTES = COUNTS + 8 * BINS
RUNS = WAITS + TABLE_BYTES
KIND_BYTES = RUNS + TABLE_BYTES
# What the reader says: one start in how many is timed (a power of two, less one), and its round.
MASK, READER_ROUND = 0, 8
SAID_BYTES = 16


class Stopwatch(Assembler):
    """One program. R6: the core's value, R8: the kind's part of it, R7: when it began; an odd time is an exact one."""

    def __init__(self, *, times: int, said: int, kinds: int) -> None:
        """`times` and `said`: the maps' descriptors. With several kinds the tracepoint's argument says which."""
        super().__init__()
        self._said = said
        if kinds > 1:
            self.load(R7, R1)
            self.jump_if(R7, ">=", kinds, "out")
        else:
            self.set(R7, 0)
        self.look_up_value(R6, times, scratch=-4, otherwise="out")
        self.multiply(R7, KIND_BYTES)
        self.set(R8, R6)
        self.add(R8, R7)
        self.add(R8, HEAD_BYTES)

    def start(self, at: int) -> None:
        """Note when it began, unless that is noted already; one in `every` exactly."""
        self.load(R1, R8, at)
        self.jump_if(R1, "!=", 0, "out")
        self.load(R1, R8, TURN)
        self.add(R1, 1)
        self.store(R8, TURN, R1)
        self.load_map_value(R2, self._said)
        self.load(R2, R2, MASK)
        self.mask(R1, R2)
        self.jump_if(R1, "==", 0, "exact")
        self._clock()
        self.store(R8, at, R0)

    def take(self, at: int) -> None:
        """R7 = when it began, forgotten from now on; R0 = now, as exactly; 0 in R7 if it was not seen to begin."""
        self.load(R7, R8, at)
        self.store(R8, at, 0)
        self.jump_if(R7, "&", 1, "exact")
        self._clock()

    def _clock(self) -> None:
        """R0 = now: the time of the tick, an even number; or, for who jumps to "exact", the exact time, an odd one."""
        self.call(Helper.JIFFIES64)
        self.load(R1, R6, TICK)
        self.jump_if(R0, "==", R1, "ticked")
        self.store(R6, TICK, R0)
        self.call(Helper.KTIME_GET_NS)
        self.mask(R0, -2)
        self.store(R6, TICK_NS, R0)
        self.label("ticked")
        self.load(R0, R6, TICK_NS)
        self.jump("known")
        self.label("exact")
        self.call(Helper.KTIME_GET_NS)
        self.mask(R0, -2)
        self.add(R0, 1)
        self.label("known")

    def count(self, table: int) -> None:
        """Into one of the kind's histograms: from R7 to R0."""
        self.jump_if(R7, "==", 0, "out")
        self.load_map_value(R3, self._said)
        self.set(R2, 1)  # how many it stands for
        self.jump_if(R0, "<", R7, "out")
        self.subtract(R0, R7)
        self.jump_if(R0, ">=", LONG, "weighed")
        self.jump_if(R7, "&", 1, "sampled")
        self.jump("out")
        self.label("sampled")
        self.load(R1, R3, MASK)
        self.add(R2, R1)
        self.label("weighed")
        self.set(R1, R0)
        self.shift_right(R1, LONGEST)
        self.jump_if(R1, "!=", 0, "out")
        self._worst(table)
        self._bin(table)

    def _worst(self, table: int) -> None:
        self.load(R1, R3, READER_ROUND)
        self.load(R3, R8, table + ROUND)
        self.store(R8, table + ROUND, R1)
        self.jump_if(R1, "!=", R3, "worst")
        self.load(R1, R8, table + WORST)
        self.jump_if(R1, ">=", R0, "bin")
        self.label("worst")
        self.store(R8, table + WORST, R0)
        self.label("bin")

    def _bin(self, table: int) -> None:
        """Count R0 ns R2 times, in the bin of the power of two below it in microseconds."""
        self.set(R3, R0)
        self.multiply(R3, R2)
        self.load(R1, R8, table + SUM)
        self.add(R1, R3)
        self.store(R8, table + SUM, R1)
        self.divide(R0, 1000)
        self.binary_logarithm(R1, R0, bits=32)
        self.jump_if(R1, ">=", BINS, "out")
        self.shift_left(R1, 3)
        self.add(R8, R1)
        self.load(R1, R8, table + COUNTS)
        self.add(R1, R2)
        self.store(R8, table + COUNTS, R1)

    def assembled(self) -> bytes:
        self.label("out")
        self.set(R0, 0)
        self.exit()
        return self.assemble()


def started(at: int, *, times: int, said: int, kinds: int) -> bytes:
    """At a tracepoint where something begins."""
    program = Stopwatch(times=times, said=said, kinds=kinds)
    program.start(at)
    return program.assembled()


def entered(*, times: int, said: int, kinds: int) -> bytes:
    """What was raised begins to run: the wait is over, the run begins."""
    program = Stopwatch(times=times, said=said, kinds=kinds)
    program.take(RAISED)
    program.store(R8, ENTERED, R0)
    program.count(WAITS)
    return program.assembled()


def left(*, times: int, said: int, kinds: int) -> bytes:
    """It has run."""
    program = Stopwatch(times=times, said=said, kinds=kinds)
    program.take(ENTERED)
    program.count(RUNS)
    return program.assembled()
