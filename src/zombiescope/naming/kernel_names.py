"""Names of kernel functions while the kernel changes: modules and BPF programs that are loaded later get theirs, too.

The kernel reports BPF programs and trampolines as they are loaded (perf_records.Ksymbol); modules it does not. If an
address has no name and another module is there, kallsyms is read again, at most once a minute: 0.2 to 0.5 s of CPU.
"""

from __future__ import annotations

import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zombiescope.core import Host
from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.perf_changes import Ksymbol, Record
from zombiescope.naming.clean import clean
from zombiescope.naming.kallsyms import UNKNOWN
from zombiescope.naming.kallsyms_text import KallsymsText

KALLSYMS, MODULES = "/proc/kallsyms", "/proc/modules"
AGAIN = 60.0  # seconds
_MOST_NAMES = 65_536
_MOST_LOADED = 16_384  # BPF programs; a node with Cilium has some hundred


def kernel_symbols(host: Host, *, many: bool = False) -> KallsymsText:
    """Those of the running kernel; Unreadable if their addresses are hidden. `many`: of a lot of them."""
    symbols = KallsymsText(host.read_bytes(KALLSYMS, most=64 << 20), all_of_it=many)
    if symbols.zeroed:
        raise Unreadable(
            KALLSYMS,
            "addresses are hidden, so kernel functions have no names: run as root, or set kernel.kptr_restrict=0",
        )
    return symbols


class KernelOnce:
    """A kernel's names, read once for all heads that a process settles, one after the other."""

    def __init__(self, kept: Callable[[str], bytes | None] = lambda _: None) -> None:
        """`kept` gives the table that a recording has of a boot, for when that is not this one of this machine."""
        self._kept = kept
        self._boot = ""
        self._names: KernelNames | None = None
        self._saved: dict[str, KernelNames | None] = {}

    def of(self, boot: str) -> KernelOnce:
        """For a head of that boot."""
        self._boot = boot
        return self

    def saved(self, but: Host | None) -> KernelNames | None:
        """What the recording itself has kept of that boot; not where its machine can be asked."""
        if but is not None:
            return None
        if self._boot not in self._saved:
            self._saved[self._boot] = _of_table(self._kept(self._boot))
        return self._saved[self._boot]

    def names(self, host: Host, *, many: bool) -> KernelNames:
        """`many` of them will be asked for. Unreadable if their addresses are hidden."""
        if self._names is None:
            self._names = KernelNames(host, kernel_symbols(host, many=many), reported=True)
        return self._names


def _of_table(text: bytes | None) -> KernelNames | None:
    try:
        symbols = KallsymsText(text, all_of_it=True) if text else None
    except Unparsable:
        return None
    return None if symbols is None or symbols.zeroed else KernelNames(None, symbols, reported=True)


class KernelNames:
    """By address. `reported`: BPF programs arrive as records, so only another module is a reason to read again."""

    def __init__(
        self, host: Host | None, symbols: KallsymsText, *, reported: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`host` can be asked for what is loaded later; None if it is another machine, or was started again."""
        self._host, self._symbols, self._reported, self._clock = host, symbols, reported, clock
        self._modules = self._loaded_modules()
        self._read_at = clock()
        self._names: dict[int, str] = {}
        self._starts: list[int] = []  # of what was loaded since
        self._loaded: dict[int, tuple[int, str]] = {}  # its end and name

    def feed(self, records: Iterable[Record]) -> None:
        """Take note of programs that were loaded; one taken out again is named until another takes its place."""
        for record in records:
            if isinstance(record, Ksymbol) and not record.gone:
                self._names.clear()
                if record.address not in self._loaded:
                    if len(self._starts) >= _MOST_LOADED:
                        self._starts.clear()
                        self._loaded.clear()
                    insort(self._starts, record.address)
                name = clean(record.name)
                self._loaded[record.address] = (
                    record.address + record.length,
                    f"{name} [bpf]" if name.startswith("bpf_prog_") else name,
                )

    def names(self, addresses: Sequence[int]) -> list[str]:
        """The function at each address, "[unknown]" for none."""
        names = self._names
        fresh = [address for address in addresses if address not in names]  # few: most were in another stack before
        if fresh:
            if len(names) > _MOST_NAMES:
                names.clear()
                fresh = list(addresses)
            found = self._find(fresh)
            if UNKNOWN in found and self._read_again():
                names.clear()
                fresh = list(addresses)
                found = self._find(fresh)
            names.update(zip(fresh, found, strict=True))
        return [names[address] for address in addresses]

    def _find(self, addresses: list[int]) -> list[str]:
        named = self._symbols.names(np.array(addresses, np.uint64))
        if not self._starts:
            return named
        return [self._later(address) or name for address, name in zip(addresses, named, strict=True)]

    def _later(self, address: int) -> str | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        end, name = self._loaded[self._starts[at]]
        return name if address < end else None

    def _read_again(self) -> bool:
        if self._host is None or self._clock() - self._read_at < AGAIN:
            return False
        self._read_at = self._clock()
        modules = self._loaded_modules()
        if modules == self._modules and self._reported:
            return False
        try:
            self._symbols, self._modules = kernel_symbols(self._host), modules
        except (Unreadable, Unparsable):  # it could be read before; the names from then are still right
            return False
        return True

    # ena 147456 0 - Live 0xffffffffc0201000
    def _loaded_modules(self) -> frozenset[tuple[str, ...]]:
        if self._host is None:
            return frozenset()
        try:
            rows = [line.split() for line in self._host.read(MODULES, most=1 << 20).splitlines()]
        except Unreadable:  # a kernel without modules
            return frozenset()
        return frozenset((*row[:2], *row[5:6]) for row in rows)
