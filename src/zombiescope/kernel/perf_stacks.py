"""Call chains as small numbers: the same chain has the same number, found with one dictionary lookup.

A node runs the same few thousand stacks over and over, so a recording holds each stack once and samples as numbers.
The key is the chain's bytes as the kernel wrote them; addresses become Python objects only when a stack is asked for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.perf_records import CONTEXT_KERNEL, CONTEXT_USER, LOWEST_CONTEXT

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
        """One number for each chain (see perf_records.Parsed for what is in one)."""
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
