"""Rings that are parsed as they are read: what settle does with a head minutes later, at once, for tests.

The same chain has the same number, found with one dictionary lookup: the key is the chain's bytes as the kernel wrote
them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.perf_changes import Record
from zombiescope.kernel.perf_rings import Drained, Rings
from zombiescope.kernel.perf_weights import Weights
from zombiescope.recorder.perf_records import CONTEXT_KERNEL, CONTEXT_USER, LOWEST_CONTEXT, Chains, parse

# With 28 addresses 340 bytes each: 22 MB. Two busy cores at 999 Hz made 3,000 to 6,000 in eight seconds.
MOST = 65_536
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class RawStack:
    """Addresses, leaf first: the kernel's part, and the process's own code that led there.

    Addresses of a process mean nothing without its pid. A stack of the kernel alone belongs to no process: its pid is
    0. Both are empty where the chain was not requested (code of a process, with user=False) or could not be walked.
    Addresses inside a virtual machine's guest are left out.
    """

    kernel: tuple[int, ...]
    user: tuple[int, ...]
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawSamples:
    """What was sampled between two reads, in order of time, as columns of one length."""

    time_ns: npt.NDArray[np.int64]  # CLOCK_MONOTONIC: compares with time.monotonic_ns()
    cpu: npt.NDArray[np.uint16]
    pid: npt.NDArray[np.int32]  # 0: idle; -1: a task that is ending
    tid: npt.NDArray[np.int32]
    cgroup: npt.NDArray[np.uint64]  # its id in the hierarchy of perf_event (v2 if it is there); 0: not known
    ip: npt.NDArray[np.uint64]  # the instruction pointer; the leaf of its stack, if that could be walked
    period: npt.NDArray[np.int64]  # what was counted since the sample before: cycles, or nanoseconds of the cpu-clock
    weight_ns: npt.NDArray[np.int64]  # time that the sample stands for
    stack: npt.NDArray[np.int64]  # for Sampler.stacks()
    lost: int  # records for which the rings had no space
    records: list[Record]
    damage: list[Unparsable]  # rings that were not understood to their end


class Sampler(Closing):
    """All cores, from now until closed, parsed as they are read. Not for use by two threads at once."""

    def __init__(self, *, hz: int = 49, user: bool = True, size: int = 0) -> None:
        self._rings = Rings(hz=hz, user=user, size=size)
        self._table = StackTable()
        self._told: dict[int, int] = {}
        self._counted: dict[int, int] = {}
        self._lost = 0
        event = self._rings.event
        self.blind = self._rings.blind
        self.event = event.name  # what makes the samples: "cycles" or "cpu-clock"
        self.hz = event.hz  # samples a second and core; less than asked for if the kernel allows no more
        self.reports_code = event.ksymbol  # whether BPF programs are reported as they are loaded (Ksymbol)
        self._weights = Weights(event.name, event.hz)

    @property
    def cpus(self) -> tuple[int, ...]:
        return self._rings.cpus

    @property
    def oldest(self) -> int:
        """The oldest stack still known: all that the last read spoke of are from here on."""
        return self._table.first

    def read(self) -> RawSamples:
        """All samples and records since the last call."""
        drained = self._rings.drain()
        parsed = parse([it.content for it in drained], cgroup=self._rings.event.cgroup)
        return RawSamples(
            time_ns=parsed.time_ns,
            cpu=parsed.cpu,
            pid=parsed.pid,
            tid=parsed.tid,
            cgroup=parsed.cgroup,
            ip=parsed.ip,
            period=parsed.period,
            weight_ns=self._weights.of(parsed.time_ns, parsed.cpu, parsed.period, {it.cpu: it.share for it in drained}),
            stack=self._table.numbers(whole(parsed.chains)),
            lost=self._newly_lost(drained, parsed.lost),
            records=parsed.records,
            damage=[it.damage for it in drained if it.damage] + parsed.damage,
        )

    def _newly_lost(self, drained: list[Drained], told: Sequence[int]) -> int:
        """As the records say, or as the events have counted: a loss is reported twice, and the larger count is true."""
        for it, many in zip(drained, told, strict=True):
            self._told[it.cpu] = self._told.get(it.cpu, 0) + many
            self._counted[it.cpu] = self._counted.get(it.cpu, 0) + it.lost
        before = self._lost
        self._lost = sum(max(many, self._counted[cpu]) for cpu, many in self._told.items())
        return self._lost - before

    def stacks(self, from_index: int) -> list[RawStack]:
        """The stacks from that number on: item i has the number from_index + i.

        A reader asks after each read for those it has not seen. Older ones are forgotten at some point (see
        StackTable); asking for these is an IndexError.
        """
        return self._table.stacks(from_index)

    def refresh(self) -> None:
        """See Rings.refresh."""
        self._rings.refresh()

    def close(self) -> None:
        self._rings.close()


def whole(chains: Chains) -> list[bytes]:
    """Each as four bytes with its pid, or 0 if no addresses of the process are in it; then addresses and markers."""
    places = zip(chains.pids, chains.first.tolist(), chains.last.tolist(), strict=True)
    return [pid.tobytes() + chains.words[first:last].tobytes() for pid, first, last in places]


class StackTable:
    """Numbers for chains, always growing; the stacks of the oldest numbers are forgotten.

    When more than `most` are held, the older half is forgotten, hot or not: a stack that is seen again then gets a new
    number, which costs a reader one duplicate and nothing else. It happens between two calls of numbers(), never
    within one, so a reader that asks for new stacks after each call misses none. Numbers are never reused.
    """

    def __init__(self, most: int = MOST) -> None:
        self.first = 0  # the oldest number still known
        self._most = most
        self._known = _Known()

    @property
    def next(self) -> int:
        """The number that the next new stack will get."""
        return self._known.next

    # 64 bits: deep stacks on 96 cores can be new at 2,000 a second, for which signed 32 bits would last twelve days.
    def numbers(self, chains: list[bytes]) -> npt.NDArray[np.int64]:
        """One number for each chain, as `whole` gives it."""
        if len(self._known) > self._most:
            self.first += len(self._known) // 2
            kept = _Known(islice(self._known.items(), len(self._known) // 2, None))
            kept.next, self._known = self._known.next, kept
        known = self._known
        return np.array([known[chain] for chain in chains], np.int64)

    def stacks(self, first: int) -> list[RawStack]:
        """All stacks from number `first` on."""
        if first < self.first:
            raise IndexError(f"stacks before number {self.first} are forgotten")
        return [_stack(chain) for chain in islice(self._known, first - self.first, None)]


# A dictionary that gives each new key the next number; dictionaries keep insertion order, so it is sorted by number.
class _Known(dict[bytes, int]):
    next = 0

    def __missing__(self, chain: bytes) -> int:
        number = self[chain] = self.next
        self.next += 1
        return number


# The kernel writes its own part first. All after the marker of the process's part belongs to the process: unwinding by
# frame pointers may yield garbage there, also values that look like markers.
def _stack(chain: bytes) -> RawStack:
    pid, *addresses = struct.unpack(f"=i{len(chain) // 8}Q", chain)
    kernel: list[int] = []
    user: list[int] = []
    onto: list[int] | None = None
    for address in addresses:
        if address < _WORD + LOWEST_CONTEXT:
            if onto is not None:
                onto.append(address)
        elif onto is not user:
            onto = {_WORD + CONTEXT_KERNEL: kernel, _WORD + CONTEXT_USER: user}.get(address)
    return RawStack(tuple(kernel), tuple(user), pid)
