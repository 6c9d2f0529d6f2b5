"""Names for the call chains of a perf.data file: the owner of each address, then one lookup for each distinct one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Frames, Function, Ints, Mask
from zombiescope.naming.kallsyms import UNKNOWN
from zombiescope.naming.ranges import distinct
from zombiescope.naming.symbols import Symbols
from zombiescope.profile.inlined import unfolded
from zombiescope.profile.perf_data_chains import LOWEST_MARK, MARKS, Stacks, among
from zombiescope.profile.perf_data_records import Words, spread
from zombiescope.profile.repeats import distinct as distinct_of
from zombiescope.profile.repeats import first_of_each

if TYPE_CHECKING:
    from zombiescope.profile.perf_data_reading import Reading

# Whose addresses are the kernel's: the hypervisor's, the kernel's own, a guest's.
_AT_ONCE = 2_000_000  # words named at a time: 200 MB of arrays, whatever the file
_SHORT = (1 << 15) - 1
_NO_FILE = re.compile(r"$|//anon$|/dev/zero|/anon_hugepage|/SYSV|/memfd:|\[(?!vdso|vsyscall)|anon_inode:")  # memory
_KERNELS = np.array([(1 << 64) - below for below in (32, 128, 2176)], np.uint64)


def named(
    stacks: Stacks,
    reading: Reading,
    symbols: Symbols,
    wanted: Ints | None = None,
    *,
    bare: bool = False,
) -> Frames:
    """Every stack as functions, outermost first, without marks and invalid addresses.

    `wanted`: only these stacks are named, the others are empty. `bare`: without symbols of the kernel its addresses
    are shown.
    """
    some = np.arange(len(stacks.chain)) if wanted is None else wanted
    spaces = reading.tasks.spaces_of(stacks.pid[some].astype(np.int64), stacks.at[some])
    naming = _Naming(symbols, reading, spaces, bare=bare)
    ends = np.cumsum(np.diff(stacks.starts)[stacks.chain[some]])
    borders = np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1] + _AT_ONCE if len(ends) else 0, _AT_ONCE), "right")
    parts = [np.empty(0, np.int32)]
    lengths = np.zeros(len(stacks.chain) + 1, np.int64)
    for first, last in pairwise([0, *sorted(set(borders.tolist())), len(ends)]):
        block = some[first:last]
        of, lengths[block + 1] = _block(stacks, block, spaces[first:last], naming)
        parts.append(of)
    return unfolded(Frames(functions=naming.functions, of=np.concatenate(parts), starts=np.cumsum(lengths)))


def _block(stacks: Stacks, block: Ints, spaces: Ints, naming: _Naming) -> tuple[npt.NDArray[np.int32], Ints]:
    """Some of the stacks: the functions of each in a row, and how many they are."""
    chains = stacks.chain[block]
    begins, lengths = stacks.starts[chains], np.diff(stacks.starts)[chains]
    if len(chains) and (np.diff(chains) == 1).all():  # as they are unless some were left out, or are in two stacks
        words = stacks.words[begins[0] : begins[-1] + lengths[-1]]
    else:
        words = stacks.words[spread(begins, lengths)]
    kept, kernel = _judged(words, np.cumsum(lengths) - lengths)
    stack = np.repeat(np.arange(len(chains)), lengths)[kept]
    addresses, kernel = words[kept], kernel[kept]
    of = np.empty(len(addresses), np.int32)
    of[kernel] = naming.kernel(addresses[kernel], stacks.at[block][stack[kernel]])
    of[~kernel] = naming.user(addresses[~kernel], spaces[stack[~kernel]])
    counts = np.bincount(stack, minlength=len(chains))
    ends = np.cumsum(counts)
    return of[np.repeat(2 * ends - counts - 1, counts) - np.arange(len(of))], counts  # each of them backwards


def _judged(words: Words, begins: Ints) -> tuple[Mask, Mask]:
    """Of each word: whether it is an address, and whether of the kernel, as the last mark before it says.

    The kernel's mark counts only where a chain begins. Behind it is what a process has on its stack, which it chooses.
    """
    high = words >= np.uint64(LOWEST_MARK)
    mark = np.zeros(len(words), np.bool_)
    mark[high] = among(words[high], MARKS)
    first = np.zeros(len(words) + 1, np.bool_)
    first[begins] = True
    mark &= first[:-1] | ~among(words, _KERNELS)
    # A chain begins with a mark, so the last one before a word is of its own chain.
    kernel = np.append(False, among(words[mark], _KERNELS))
    of_kernel: Mask = kernel[np.cumsum(mark)]
    return ~high, of_kernel


class _Naming:
    """Numbers for functions, looked up by address; the same function always has the same number."""

    def __init__(self, symbols: Symbols, reading: Reading, spaces: Ints, *, bare: bool) -> None:
        self._symbols, self._tasks, self._ksymbols, self._bare = symbols, reading.tasks, reading.ksymbols, bare
        self._atlas = reading.mappings.atlas(spaces, reading.tasks, reading.build_ids)
        self.functions: list[Function] = []
        self._number: dict[Function, int] = {}

    def kernel(self, addresses: Words, at: Ints) -> npt.NDArray[np.int32]:
        loaded, names = self._ksymbols.named(addresses, at)
        others = np.ones(len(addresses), np.bool_)
        others[loaded] = False
        found = np.empty(len(addresses), np.int32)
        found[others] = self._of_kallsyms(addresses[others])
        found[loaded] = self._spelled(names)
        return found

    def _of_kallsyms(self, addresses: Words) -> npt.NDArray[np.int32]:
        rows, which = first_of_each(addresses)
        once = addresses[rows]
        if self._bare:
            bare = [self._numbered(f"{address:#x}", True, "") for address in once.tolist()]
            shown: npt.NDArray[np.int32] = np.array(bare, np.int32)[which]
            return shown
        return self._spelled(self._symbols.kernels(once))[which]

    def _spelled(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Functions of the kernel as /proc/kallsyms has them, the module behind the name."""
        number = dict[str, int]()
        for each in dict.fromkeys(names):
            name, _, module = each.partition(" [")
            number[each] = self._numbered(name, True, module.removesuffix("]"))
        return np.array([number[it] for it in names], np.int32)

    def user(self, addresses: Words, spaces: Ints) -> npt.NDArray[np.int32]:
        """Most addresses are in many stacks of a process: each is looked up once."""
        rows, which = first_of_each(addresses, spaces.astype(np.uint64))
        return self._once(addresses[rows], spaces[rows])[which]

    def _once(self, addresses: Words, spaces: Ints) -> npt.NDArray[np.int32]:
        files, offsets = self._atlas.find(spaces, addresses)
        of = np.full(len(addresses), self._numbered(UNKNOWN, False, ""), np.int32)
        few = len(self._atlas.files) <= _SHORT  # numbers of 16 bits are sorted in two passes
        order = np.argsort(files.astype(np.int16) if few else files, kind="stable")
        edges = np.searchsorted(files[order], np.arange(len(self._atlas.files) + 1))
        for place in np.flatnonzero(np.diff(edges)).tolist():
            rows = order[edges[place] : edges[place + 1]]
            path, build_id = self._atlas.files[place]
            if _NO_FILE.match(path):
                of[rows] = self._made(addresses[rows], self._tasks.pid_of_space[spaces[rows]], path)
            else:
                once, which = distinct_of(offsets[rows])
                of[rows] = self._of(path, self._symbols.functions(path, build_id, once))[which]
        return of

    def _made(self, addresses: Words, pids: Ints, path: str) -> npt.NDArray[np.int32]:
        """JIT code: its runtime may have written a map of names for each process."""
        of = np.empty(len(addresses), np.int32)
        for pid in distinct(pids).tolist():
            rows = np.flatnonzero(pids == pid)
            once, which = np.unique(addresses[rows], return_inverse=True)
            of[rows] = self._of(path, self._symbols.jits(pid, once))[which.reshape(-1)]
        return of

    def _of(self, path: str, names: list[str | None]) -> npt.NDArray[np.int32]:
        number = {name: self._numbered(name or _unnamed(path), False, path) for name in dict.fromkeys(names)}
        return np.array([number[name] for name in names], np.int32)

    def _numbered(self, name: str, kernel: bool, module: str) -> int:
        function = Function(name, kernel, module)
        found = self._number.get(function)
        if found is None:
            found = self._number[function] = len(self.functions)
            self.functions.append(function)
        return found


def _unnamed(path: str) -> str:
    """One frame with the file's name for all of its functions without names; it shows which file lacks symbols."""
    name = path.removesuffix(" (deleted)").rsplit("/", 1)[-1]
    if path.startswith("["):
        return path
    return UNKNOWN if not name or path == "//anon" else f"[{name}]"
