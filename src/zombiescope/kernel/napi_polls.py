"""How much of its budget each network device's polls use: an eBPF program at napi:napi_poll.

Of polls that leave some of their budget one in `every` is counted, for all of them; those that use all of it are all
counted. Devices are distinguished by name, in a small table of each core; what does not fit in is counted together.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from zombiescope.core.errors import Unreadable
from zombiescope.kernel.bpf import TRACEPOINT, Array, PerCpuArray, Program
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R7, R8, R9, R10, Assembler, Helper
from zombiescope.kernel.tracepoint_format import Format
from zombiescope.kernel.turns import Turns

EXACT = 1_000  # polls a second that are counted one by one, at some 150 ns: 0.015 % of a core
FIRST, MOST = 4, 10  # powers of two: one in 16 until the rate is known, and never less than one in 1,024
SLOTS = 32  # names in the table of a core; a power of two
TRIES = 4  # slots in which a name may be
EIGHTHS = 9  # of the budget: 0 to 7, and all of it
NAME_BYTES = 16  # IFNAMSIZ
NAME, WORK, COUNTS = 0, NAME_BYTES, NAME_BYTES + 8
SLOT_BYTES = COUNTS + 8 * EIGHTHS
TURN, HEAD_BYTES = 0, 8
VALUE_BYTES = HEAD_BYTES + (SLOTS + 1) * SLOT_BYTES  # the last one is for names that found no slot


class Polls(NamedTuple):
    """The polls of one device since the last round, by eighths of the budget that they used."""

    device: str  # as the kernel names it: "(no_device)" for a core's backlog; "" for those that found no slot
    counts: tuple[int, ...]
    packets: int


def program(record: Format, *, polls: int, said: int) -> bytes:
    """R9: the record, R6: the core's value, R7: eighths, R8: the slot."""
    name, work, budget = record.field("dev_name", 4), record.field("work", 4), record.field("budget", 4)
    if not name.elsewhere:
        raise Unreadable(record.source, "dev_name is not a string of its own (__data_loc)")
    it = Assembler()
    it.set(R9, R1)
    it.look_up_value(R6, polls, scratch=-20, otherwise="out")
    it.load(R7, R9, work.offset, size=4)
    it.load(R1, R9, budget.offset, size=4)
    it.jump_if(R1, "==", 0, "out")  # netpoll: it only cleans up
    it.shift_left(R7, 3)
    it.divide(R7, R1)
    _sampled(it, said)
    # The name, with zeroes behind it.
    it.store(R10, -16, 0)
    it.store(R10, -8, 0)
    it.load(R3, R9, name.offset, size=4)
    it.mask(R3, 0xFFFF)
    it.add(R3, R9)
    it.set(R1, R10)
    it.add(R1, -16)
    it.set(R2, NAME_BYTES)
    it.call(Helper.PROBE_READ_KERNEL_STR)
    _slot(it)
    it.load(R1, R9, work.offset, size=4)
    it.load(R2, R10, -32)
    it.multiply(R1, R2)
    it.load(R3, R8, WORK)
    it.add(R3, R1)
    it.store(R8, WORK, R3)
    it.shift_left(R7, 3)
    it.add(R8, R7)
    it.load(R1, R8, COUNTS)
    it.add(R1, R2)
    it.store(R8, COUNTS, R1)
    it.label("out")
    it.set(R0, 0)
    it.exit()
    return it.assemble()


def _sampled(it: Assembler, said: int) -> None:
    """How many it stands for, at R10 - 32; on to "out" if it is not counted."""
    it.load(R1, R6, TURN)
    it.add(R1, 1)
    it.store(R6, TURN, R1)
    it.store(R10, -32, 1)
    it.jump_if(R7, ">=", EIGHTHS - 1, "full")
    it.load_map_value(R2, said)
    it.load(R2, R2)
    it.mask(R1, R2)
    it.jump_if(R1, "!=", 0, "out")
    it.add(R2, 1)
    it.store(R10, -32, R2)
    it.jump("counted")
    it.label("full")
    it.set(R7, EIGHTHS - 1)
    it.label("counted")


def _slot(it: Assembler) -> None:
    """R8 = the slot of the name at R10 - 16: its own, or the first free one of a few, or the last."""
    it.load(R2, R10, -16)
    it.load(R3, R10, -8)
    it.set(R0, R2)
    it.add(R0, R3)
    it.multiply(R0, 0x61C88647)
    it.shift_right(R0, 16)
    for attempt in range(TRIES):
        it.mask(R0, SLOTS - 1)
        it.set(R1, R0)
        it.multiply(R1, SLOT_BYTES)
        it.set(R8, R6)
        it.add(R8, R1)
        it.add(R8, HEAD_BYTES)
        it.load(R1, R8, NAME)
        it.jump_if(R1, "==", 0, "free")
        it.jump_if(R1, "!=", R2, f"next{attempt}")
        it.load(R1, R8, NAME + 8)
        it.jump_if(R1, "==", R3, "found")
        it.label(f"next{attempt}")
        it.add(R0, 1)
    it.set(R8, R6)
    it.add(R8, HEAD_BYTES + SLOTS * SLOT_BYTES)
    it.jump("found")
    it.label("free")
    it.store(R8, NAME, R2)
    it.store(R8, NAME + 8, R3)
    it.label("found")


_UNUSED = bytes(SLOT_BYTES)


class NapiPolls(Closing):
    """All polls from now on, until closed."""

    def __init__(self, record: Format, cores: int, *, most: float) -> None:
        """`most`: polls a second on the average; where there are more, they are counted in a part of the time."""
        self._cores = cores
        with ExitStack() as undo:
            self._polls = undo.enter_context(PerCpuArray(VALUE_BYTES, "zombie_polls", cores))
            self._said = undo.enter_context(Array(8, "zombie_said"))
            code = program(record, polls=self._polls.descriptor, said=self._said.descriptor)
            self._program = undo.enter_context(Program(code, "napi_poll", TRACEPOINT))
            self._say(FIRST)
            self._last, self._polled = self._sums(self._polls.read())
            self._turns = Turns(lambda: self._program.attach_to_record(record.id), self._program.detach, most=most)
            self._turns.begin()
            self._stack = undo.pop_all()

    def close(self) -> None:
        self._stack.close()

    def read(self) -> tuple[float, int, list[Polls]] | None:
        """How long it was since the last call, one in how many was counted, and what; None while the program rests."""
        if self._turns.resting():
            return None
        seconds, every, before = time.monotonic() - self._turns.began, self.every, self._last
        self._last, polled = self._sums(self._polls.read())
        nothing = [0] * (EIGHTHS + 1)
        found = []
        for device, sums in self._last.items():
            packets, *counts = (new - old for new, old in zip(sums, before.get(device, nothing), strict=True))
            if any(counts):
                found.append(Polls(device, tuple(counts), packets))
        rate = (polled - self._polled) / max(seconds, 1e-3)
        self._say(next((bits for bits in range(MOST) if rate / (1 << bits) <= EXACT), MOST))
        self._turns.end_round(polled - self._polled)
        self._polled = polled
        return seconds, every, found

    def _say(self, bits: int) -> None:
        self.every = 1 << bits
        self._said.write(struct.pack("=Q", self.every - 1))

    def _sums(self, raw: bytes) -> tuple[dict[str, list[int]], int]:
        """By device: packets, then polls by eighths, of all cores together; and all polls."""
        found: dict[str, list[int]] = {}
        for name, sums in self._slots(raw):
            known = found.setdefault(name, [0] * len(sums))
            for place, many in enumerate(sums):
                known[place] += many
        polled = sum(struct.unpack_from("=Q", raw, core * VALUE_BYTES + TURN)[0] for core in range(self._cores))
        return found, polled

    def _slots(self, raw: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
        for core in range(self._cores):
            start = core * VALUE_BYTES + HEAD_BYTES
            for at in range(start, start + (SLOTS + 1) * SLOT_BYTES, SLOT_BYTES):
                if raw[at : at + SLOT_BYTES] == _UNUSED:  # so it is with nearly all
                    continue
                sums = struct.unpack_from(f"={EIGHTHS + 1}Q", raw, at + WORK)
                if any(sums[1:]):
                    name = raw[at : at + NAME_BYTES].split(b"\0")[0]
                    yield name.decode("utf-8", "surrogateescape"), sums
