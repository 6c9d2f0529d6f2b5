"""The stacks of a head, each named once, in batches: what is done per address is done for all stacks together.

A stack's id is a hash of its content, so the same stack has the same id in every segment and on every node. Kept are
numbers of names, not addresses, so 200,000 stacks of 30 functions take 24 MB; chains are known by their hashes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.namer import Namer
from zombiescope.naming.ranges import grouped, numbered
from zombiescope.profile.perf_data_records import spread
from zombiescope.recorder.perf_records import CONTEXT_KERNEL, CONTEXT_USER, LOWEST_CONTEXT, Chains
from zombiescope.recorder.shares import Shares

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_WORD = 1 << 64
_LOWEST, _KERNEL, _USER = (np.uint64(_WORD + it) for it in (LOWEST_CONTEXT, CONTEXT_KERNEL, CONTEXT_USER))
# Odd, and drawn anew each time we run: nobody can choose an address that is taken for one of another program.
_ODD, _OF_ADDRESS, _OF_PROGRAM = np.frombuffer(os.urandom(24), np.uint64) | np.uint64(1)
_PATIENCE = 2.0  # seconds, in all, that files on a slow disk are waited for
_NAP = 0.05
LONGEST = 256  # characters of a name. A symbol may have 4,096, and a stack 127 of them: 517 such stacks are 256 MB
CUT = "…"
# Bytes of the names of all stacks on disk before they are compressed, with at least `LEAST` for each, what is usual: so
# 400,000 stacks. Of what is beyond a program's share samples keep the kernel's functions. 192 cores are 120 MB.
MOST_BYTES, LEAST = 256 << 20, 600
MOST_NAMES = 64 << 20  # bytes of memory for what is distinct among the names: a busy node has 20,000 of 100 bytes
TOO_MANY, TOO_MANY_NAMES = "[more stacks than are kept]", "[more functions than are named]"


class StackNames:
    """Numbers for chains (see perf_records), in the order they were first seen."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        # By hashes of 64 bits, which are keyed, so nobody can choose them. In a dictionary each takes 110 bytes.
        self._known = _Numbers()  # of chains
        self._same = _Numbers()  # of what is named the same: addresses differ within a function
        self._room, self._names_room = Shares(MOST_BYTES), Shares(MOST_NAMES)
        self._codes: dict[str, int] = {}
        self._words: list[str] = []
        self._sizes = array("I")  # of words, in bytes
        self._idle_word = array("b")
        self._frames = array("I")
        self._starts = array("Q", [0])
        self._kernel = array("H")
        self._ids = array("Q")
        self._idle = array("b")
        self._waited = 0.0
        self._instead: dict[bytes, int] = {}
        self.left_out: Counter[int] = Counter()  # stacks without the program's own part, by process
        self.unnamed: Counter[int] = Counter()  # functions, by process

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Words:
        return np.array(self._ids, np.uint64)

    @property
    def idle(self) -> npt.NDArray[np.bool_]:
        """Which of them say that the core had nothing to do."""
        return np.array(self._idle, np.bool_)

    def numbers(self, chains: Chains, time_ns: Ints, programs: Ints, cgroups: Words) -> Ints:
        """One number for each chain, sampled at these times, which ascend.

        `programs`: numbers of the programs that ran; the same addresses of another one are another stack. `cgroups`:
        where they ran, 0 if that is not known: however many processes one forks, they have its share together.
        """
        keys = chains.keys() ^ np.where(chains.pids != 0, programs, 0).astype(np.uint64) * _ODD
        first, which = grouped(keys)
        numbers = self._known.find(keys[first])
        fresh = np.flatnonzero(numbers < 0)
        if len(fresh):
            places = first[fresh]
            numbers[fresh] = self._name(chains, places, time_ns[places], programs[places], cgroups[places])
            self._known.add(keys[places], numbers[fresh])
        return numbers[which]

    def _name(self, chains: Chains, places: Ints, time_ns: Ints, programs: Ints, cgroups: Words) -> Ints:
        lengths, pids = (chains.last - chains.first)[places], chains.pids[places]
        users = [_users(pid, cgroup) for pid, cgroup in zip(pids.tolist(), cgroups.tolist(), strict=True)]
        addresses: Words = chains.words[spread(chains.first[places], lengths)]
        owner = np.repeat(np.arange(len(places)), lengths)
        kernel, user = _parts(addresses, owner, np.cumsum(lengths) - lengths)
        codes = np.zeros(len(addresses), np.uint32)
        of_kernel = addresses[kernel]
        first, which = grouped(of_kernel)
        codes[kernel] = self._coded([_cut(it) for it in self._namer.kernel(of_kernel[first].tolist())])[which]
        codes[user] = self._functions(pids + (programs << 32), owner[user], addresses[user], time_ns, users)
        # The kernel writes the leaf first, its own part before the program's: backwards it is outermost first.
        kept = kernel | user
        frames = codes[kept][::-1].tobytes()
        sizes = np.bincount(owner[kept], minlength=len(places))
        ends = sizes.sum() - (np.cumsum(sizes) - sizes)
        kernels = np.bincount(owner[kernel], minlength=len(places))
        parts = [
            (frames[4 * (end - size) : 4 * end], of_kernel)
            for size, end, of_kernel in zip(sizes.tolist(), ends.tolist(), kernels.tolist(), strict=True)
        ]
        return self._numbered(parts, pids.tolist(), users)

    def _functions(
        self, who: Ints, owner: Ints, addresses: Words, time_ns: Ints, users: Sequence[Sequence[Hashable]]
    ) -> npt.NDArray[np.uint32]:
        """Codes of the functions of processes; each address of a program is named once, at its first sample.

        `who`, `time_ns`, `users`: of each stack, which ascend in time; `owner`: whose stack each address is in.
        """
        if not len(owner):
            return np.empty(0, np.uint32)
        first, which = grouped(addresses * _OF_ADDRESS + (who.astype(np.uint64) * _OF_PROGRAM)[owner])
        order = np.lexsort((addresses[first], who[owner[first]]))  # those of one mapping are found faster together
        first = first[order]
        pids, seen = who[owner[first]].astype(np.int32), time_ns[owner[first]]
        asked = list(zip(pids.tolist(), addresses[first].tolist(), seen.tolist(), strict=True))
        names, late = self._namer.users(asked)
        while late and self._waited < _PATIENCE:
            self._namer.more()
            again, still = self._namer.users([asked[it] for it in late])
            for place, name in zip(late, again, strict=True):
                names[place] = name
            if len(still) == len(late):  # a file that is being read, or one that is never going to be
                time.sleep(_NAP)
                self._waited += _NAP
                if self._waited >= _PATIENCE or not self._namer.reads:
                    break
            late = [late[it] for it in still]
        names = self._fitting([_cut(it) for it in names], pids.tolist(), [users[it] for it in owner[first].tolist()])
        found = np.empty(len(first), np.uint32)
        found[order] = self._coded(names)
        return found[which]

    def _fitting(self, names: list[str], pids: Sequence[int], users: Sequence[Sequence[Hashable]]) -> list[str]:
        """Names of functions as far as each program has room for new ones."""
        for place, name in enumerate(names):
            if name not in self._codes and not self._names_room.take(sys.getsizeof(name), users[place]):
                names[place] = TOO_MANY_NAMES
                self.unnamed[pids[place]] += 1
        return names

    def _coded(self, names: Sequence[str]) -> npt.NDArray[np.uint32]:
        codes = self._codes
        for name in names:
            if name not in codes:
                codes[name] = len(self._words)
                self._words.append(name)
                self._sizes.append(len(_utf8(name)) + 1)
                self._idle_word.append(is_idle(name))
        return np.fromiter(map(codes.__getitem__, names), np.uint32, len(names))

    def _numbered(
        self, parts: Sequence[tuple[bytes, int]], pids: Sequence[int], users: Sequence[Sequence[Hashable]]
    ) -> Ints:
        keys = np.fromiter(map(hash, parts), np.int64, len(parts)).view(np.uint64)
        first, which = grouped(keys)
        numbers = self._same.find(keys[first])
        fresh = np.flatnonzero(numbers < 0)
        numbers[fresh] = [self._kept(parts[it], users[it]) for it in first[fresh].tolist()]
        found: Ints = numbers[which]
        # What the first program had no room for another one may have, so it is not remembered.
        again: dict[int, int] = {}
        for place in np.flatnonzero(found < 0).tolist():
            number = again.get(which[place], -1)
            if number < 0:
                number = self._kept(parts[place], users[place])
            if number >= 0:
                numbers[which[place]] = again[which[place]] = number
            found[place] = number if number >= 0 else self._kernel_alone(parts[place], pids[place])
        kept = fresh[numbers[fresh] >= 0]
        self._same.add(keys[first[kept]], numbers[kept])
        return found

    def _kept(self, part: tuple[bytes, int], users: Sequence[Hashable]) -> int:
        """The number of a new stack; -1 if its program has no room. The kernel's own functions need none."""
        own, kernel = array("I", part[0]), part[1]
        if len(own) > kernel and not self._room.take(max(sum(self._sizes[it] for it in own), LEAST), users):
            return -1
        return self._added(own, kernel)

    def _kernel_alone(self, part: tuple[bytes, int], pid: int) -> int:
        frames, kernel = part
        self.left_out[pid] += 1
        short = self._coded([TOO_MANY]).tobytes() + frames[len(frames) - 4 * kernel :]
        if short not in self._instead:
            self._instead[short] = self._added(array("I", short), kernel)
        return self._instead[short]

    def _added(self, own: array[int], kernel: int) -> int:
        words = self._words
        said = _utf8("\0".join([str(kernel), *[words[it] for it in own]]))
        self._frames.extend(own)
        self._starts.append(len(self._frames))
        self._kernel.append(min(kernel, 0xFFFF))
        self._ids.append(int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "little"))
        self._idle.append(kernel > 0 and self._idle_word[own[-1]])
        return len(self._ids) - 1

    def let_go(self) -> None:
        """No more is asked but for what is there."""
        self._known, self._same = _Numbers(), _Numbers()
        self._codes.clear()
        del self._namer

    def kept(self) -> Ints:
        """Those in which a core did something; each id once."""
        rows, ids = np.flatnonzero(~self.idle), self.ids
        return rows[numbered(ids[rows])[1]]

    def coded(self, rows: Ints) -> tuple[npt.NDArray[np.uint32], Ints, npt.NDArray[np.uint16]]:
        """Of some of them: functions one after the other, as places in `words`; how many; how many are the kernel's."""
        starts = np.frombuffer(self._starts, np.uint64).astype(np.int64)
        begins, ends = starts[rows], starts[rows + 1]
        frames = np.frombuffer(self._frames, np.uint32)[spread(begins, ends - begins)]
        return frames, ends - begins, np.array(self._kernel, np.uint16)[rows]

    def words(self) -> list[bytes]:
        """The names of functions, in UTF-8; other bytes are escaped."""
        return [_utf8(it) for it in self._words]


class _Numbers:
    """Numbers of 64-bit keys, in two sorted columns."""

    def __init__(self) -> None:
        self._keys, self._values = np.empty(0, np.uint64), np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Words) -> Ints:
        """The number of each key; -1 for one that is not there."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._values[place].astype(np.int64), -1)

    def add(self, keys: Words, numbers: Ints) -> None:
        """Keys that are not there yet."""
        order = np.argsort(keys)
        place = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, place, keys[order])
        self._values = np.insert(self._values, place, numbers[order].astype(np.int32))


def _parts(addresses: Words, owner: Ints, starts: Ints) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which addresses are the kernel's, and which the process's own.

    All after the marker of the process's part belongs to the process: unwinding by frame pointers may yield garbage
    there, also values that look like markers. Addresses inside a virtual machine's guest are neither.
    """
    places = np.arange(len(addresses))
    marks = addresses >= _LOWEST
    last = np.maximum.accumulate(np.where(marks, places, -1)) if len(places) else places
    within = last >= starts[owner]
    ours = np.flatnonzero(marks & (addresses == _USER))[::-1]
    first_of_user = np.full(len(starts), len(addresses), np.int64)
    first_of_user[owner[ours]] = ours
    user = ~marks & (places > first_of_user[owner])
    kernel = ~marks & ~user & within & (addresses[np.maximum(last, 0)] == _KERNEL)
    return kernel, user


def _users(pid: int, cgroup: int) -> tuple[Hashable, ...]:
    return (pid, ("cgroup", cgroup)) if cgroup else (pid,)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - len(CUT)] + CUT


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
