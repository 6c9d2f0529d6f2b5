"""How long threads wait to run, by cgroup: eBPF programs at sched_wakeup and sched_switch, histograms of powers of two.

A thread waits from its wake-up, or from the moment another takes its core, until it runs. Its wait is counted when it
leaves the core again: only then does the kernel say which cgroup it is in. Who waits is kept in a table of SLOTS by a
hash of the thread; where two meet, the second is not timed.
Kernel: sched_switch says since 9c2136be0878 (v5.19) whether the thread that leaves can go on. Its cgroup is that of
    version 2.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import NamedTuple

from zombiescope.kernel.bpf import Array, Program, Table
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Assembler, Helper, Register
from zombiescope.kernel.stopwatch import BINS, LONGEST
from zombiescope.kernel.turns import Turns

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS
TASK, SINCE, WAITED = 0, 8, 16  # of a slot: whose it is, since when it waits, how long it waited before it ran
SLOT_BYTES = 24
WORST, SUM, COUNTS = 0, 8, 16  # of a cgroup, in this order
CGROUP_BYTES = COUNTS + 8 * BINS
MOST_CGROUPS = 1_024  # in one round; 250 pods have some 750
OTHERS = 0  # the key of those beyond; no cgroup has that id
_GOLDEN = 0x9E3779B97F4A7C15  # spreads what differs in a few bits over all of them
_KEY, _VALUE = -8, -8 - CGROUP_BYTES  # places on the stack
_PREEMPTED, _LEAVES, _COMES, _STATE = 0, 8, 16, 24  # the arguments of sched_switch


class Delays(NamedTuple):
    """The waits of one cgroup's threads in one round: how many took from 2**i to 2**(i+1) microseconds."""

    cgroup: int  # its id, or OTHERS
    counts: tuple[int, ...]
    worst: float  # seconds
    total: float  # seconds, of all together


class RunDelays(Closing):
    """All waits from now on, until closed."""

    def __init__(self, *, most: float) -> None:
        """`most`: waits a second on the average; where there are more, they are timed in a part of the time."""
        with ExitStack() as undo:
            self._slots = undo.enter_context(Array(SLOTS * SLOT_BYTES, "zombie_waiting"))
            self._table = undo.enter_context(Table(CGROUP_BYTES, "zombie_delays", MOST_CGROUPS))
            switched = switched_program(slots=self._slots.descriptor, table=self._table.descriptor)
            woken = woken_program(slots=self._slots.descriptor)
            # In the order in which they are attached: nobody begins to wait who is not seen to run.
            codes = {"sched_switch": switched, "sched_wakeup": woken, "sched_wakeup_new": woken}
            self._programs = {name: undo.enter_context(Program(code, name)) for name, code in codes.items()}
            self._turns = Turns(self._attach, self._detach, most=most)
            self._turns.begin()
            self._stack = undo.pop_all()

    def close(self) -> None:
        self._stack.close()

    def read(self) -> tuple[float, list[Delays]] | None:
        """How long it was since the last call, and who waited; None while the programs rest."""
        if self._turns.resting():
            return None
        seconds = time.monotonic() - self._turns.began
        keys, words = self._taken()
        size = CGROUP_BYTES // 8
        rows = [(key, words[at * size : at * size + size].tolist()) for at, key in enumerate(keys)]
        found = [
            Delays(key, tuple(counts), worst / 1e9, total / 1e9) for key, (worst, total, *counts) in rows if any(counts)
        ]
        self._turns.end_round(sum(sum(it.counts) for it in found))
        return seconds, found

    def _attach(self) -> None:
        self._slots.write(bytes(SLOTS * SLOT_BYTES))  # who waited before a rest did not wait as long as the rest
        self._taken()
        for tracepoint, program in self._programs.items():
            program.attach(tracepoint)

    def _taken(self) -> tuple[memoryview[int], memoryview[int]]:
        """Keys and values, as words; from now on all are counted anew."""
        taken = self._table.take()
        self._table.add(OTHERS)
        return taken

    def _detach(self) -> None:
        for program in self._programs.values():
            program.detach()


def woken_program(*, slots: int) -> bytes:
    """A thread can run from now on."""
    it = Assembler()
    it.load(R9, R1)
    it.call(Helper.KTIME_GET_NS)
    it.set(R7, R0)
    _slot(it, slots)
    _waits_from_now(it, "out")
    return _ended(it)


def switched_program(*, slots: int, table: int) -> bytes:
    """One thread leaves a core, and another comes. R6: the arguments, R7: now, R9: a thread, R8: its slot."""
    it = Assembler()
    it.set(R6, R1)
    it.call(Helper.KTIME_GET_NS)
    it.set(R7, R0)
    it.call(Helper.GET_CURRENT_PID_TGID)
    it.shift_left(R0, 32)
    it.jump_if(R0, "==", 0, "comes")  # the core was idle
    it.load(R9, R6, _LEAVES)
    _slot(it, slots)
    _count_its_wait(it, table)
    it.load(R1, R6, _PREEMPTED)
    it.mask(R1, 1)
    it.jump_if(R1, "!=", 0, "goes on")
    it.load(R1, R6, _STATE)
    it.shift_left(R1, 32)
    it.jump_if(R1, "!=", 0, "comes")
    it.label("goes on")
    _waits_from_now(it, "comes")
    it.label("comes")
    it.load(R9, R6, _COMES)
    _slot(it, slots)
    it.load(R1, R8, TASK)
    it.jump_if(R1, "!=", R9, "out")
    it.load(R1, R8, SINCE)
    it.store(R8, SINCE, 0)
    it.jump_if(R1, "==", 0, "out")
    it.jump_if(R7, "<=", R1, "out")
    it.subtract(R7, R1)
    it.store(R8, WAITED, R7)
    return _ended(it)


def _slot(it: Assembler, slots: int) -> None:
    """R8 = the slot of the thread in R9."""
    it.load_constant(R1, _GOLDEN)
    it.multiply(R1, R9)
    it.shift_right(R1, 64 - SLOT_BITS)
    it.multiply(R1, SLOT_BYTES)
    it.load_map_value(R8, slots)
    it.add(R8, R1)


def _waits_from_now(it: Assembler, otherwise: str) -> None:
    """Note it in the slot, unless somebody waits there, or a wait there is yet to be counted: perhaps its own.

    A thread that is about to sleep may be woken while it still runs.
    """
    it.load(R1, R8, WAITED)
    it.jump_if(R1, "!=", 0, otherwise)
    it.load(R1, R8, TASK)
    it.jump_if(R1, "==", R9, "own")
    it.load(R1, R8, SINCE)
    it.jump_if(R1, "==", 0, "free")
    it.set(R2, R7)
    it.subtract(R2, R1)
    it.shift_right(R2, LONGEST)
    it.jump_if(R2, "==", 0, otherwise)  # else that thread is long gone
    it.label("free")
    it.store(R8, TASK, R9)
    it.label("own")
    it.store(R8, SINCE, R7)


def _count_its_wait(it: Assembler, table: int) -> None:
    """If the thread that leaves had waited, count that for its cgroup; its slot is free then."""
    it.load(R1, R8, TASK)
    it.jump_if(R1, "!=", R9, "counted")
    it.load(R1, R8, WAITED)
    it.jump_if(R1, "==", 0, "forget")
    it.call(Helper.GET_CURRENT_CGROUP_ID)
    it.store(R10, _KEY, R0)
    _found(it, table, "found")
    for at in range(_VALUE, _KEY, 8):
        it.store(R10, at, 0)
    it.load_map(R1, table)
    _address(it, R2, _KEY)
    _address(it, R3, _VALUE)
    it.set(R4, 0)
    it.call(Helper.MAP_UPDATE_ELEM)
    _found(it, table, "found")
    it.store(R10, _KEY, OTHERS)
    _found(it, table, "found")
    it.jump("forget")
    it.label("found")
    it.load(R2, R8, WAITED)
    it.load(R1, R0, WORST)
    it.jump_if(R1, ">=", R2, "not worst")
    it.store(R0, WORST, R2)
    it.label("not worst")
    it.add_to(R0, SUM, R2)
    it.divide(R2, 1000)
    it.binary_logarithm(R1, R2, bits=32)
    it.jump_if(R1, ">=", BINS, "forget")
    it.shift_left(R1, 3)
    it.add(R0, R1)
    it.set(R2, 1)
    it.add_to(R0, COUNTS, R2)
    it.label("forget")
    for field in (TASK, SINCE, WAITED):
        it.store(R8, field, 0)
    it.label("counted")


def _found(it: Assembler, table: int, label: str) -> None:
    """R0 = the value of the key on the stack, and on to the label; or go on."""
    it.load_map(R1, table)
    _address(it, R2, _KEY)
    it.call(Helper.MAP_LOOKUP_ELEM)
    it.jump_if(R0, "!=", 0, label)


def _address(it: Assembler, target: Register, place: int) -> None:
    it.set(target, R10)
    it.add(target, place)


def _ended(it: Assembler) -> bytes:
    it.label("out")
    it.set(R0, 0)
    it.exit()
    return it.assemble()
