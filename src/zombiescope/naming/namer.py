"""The one who names: (pid, address, time) to a function, for the samples of a running machine.

Feed it all records and show it the pids of the samples, in the order of the reads; then ask for whole stacks. What it
holds is bounded: processes, mappings, files, maps of just-in-time compilers, names. Nothing it asks can stop it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from zombiescope.kernel.perf_changes import Exit, Record
from zombiescope.naming.clean import clean
from zombiescope.naming.file_systems import MountTables
from zombiescope.naming.files import Files
from zombiescope.naming.kallsyms import UNKNOWN
from zombiescope.naming.kernel_names import KernelNames
from zombiescope.naming.mappings import Mappings
from zombiescope.naming.perf_maps import PerfMaps
from zombiescope.naming.regions import Region

MOST_REASONS = 16  # of processes whose functions have no names
_NOTHING: Mapping[int, str | None] = {}


class Namer:
    """For one machine, from now on. Not for use by two threads at once."""

    def __init__(
        self, kernel: KernelNames | None = None, mappings: Mappings | None = None, *, here: bool = True
    ) -> None:
        """`here`: the samples are of this machine since it started; else no file of it is opened for them."""
        self._kernel, self._here = kernel, here
        self._mappings = Mappings() if mappings is None else mappings
        self._aside = self._mappings.aside
        tables = MountTables()
        self._files = Files(self._aside, tables)
        self._perf_maps = PerfMaps(self._aside, tables)
        self._ended: list[int] = []

    def feed(self, records: Sequence[Record]) -> None:
        """All records of one read, in order of time."""
        for pid in self._ended:  # at the read before this one, so that its last samples have names
            self._perf_maps.ended(pid)
        self._ended = [it.pid for it in records if isinstance(it, Exit) and it.pid == it.tid]
        self._files.begin()
        self._mappings.feed(records)
        if self._kernel is not None:
            self._kernel.feed(records)

    def more(self) -> None:
        """Some more files may be opened, as for another read."""
        self._files.begin()

    @property
    def reads(self) -> bool:
        """A file is being read that may give names later."""
        return self._aside.busy

    def see(self, pids: Iterable[int], time_ns: int) -> None:
        """The processes of the samples of one read."""
        self._mappings.see(pids, time_ns)

    def kernel(self, addresses: Sequence[int]) -> list[str]:
        """The kernel function at each address, "[unknown]" for none."""
        return self._kernel.names(addresses) if self._kernel is not None else [UNKNOWN] * len(addresses)

    def user(self, pid: int, address: int, time_ns: int) -> tuple[str, bool]:
        """The function of a process at an address, else file+0x1234 or "[unknown]"; and whether that is final."""
        (name,), late = self.users([(pid, address, time_ns)])
        return name, not late

    def users(self, asked: Sequence[tuple[int, int, int]]) -> tuple[list[str], list[int]]:
        """The same for many (pid, address, time), what is asked of one file at once; and the places of those that may
        become better."""
        regions = self._mappings.find_all(asked)
        names = [UNKNOWN] * len(asked)
        rest: list[int] = []  # most are known by now: one look into a dictionary
        last_pid, last_region = -1, None
        has_map, known, shift = False, _NOTHING, 0
        for place, ((pid, address, _), region) in enumerate(zip(asked, regions, strict=True)):
            if region is None:  # of a program without frame pointers, mostly no address at all
                if pid != last_pid:
                    last_pid, has_map = pid, self._here and self._perf_maps.known(pid)
                if has_map:
                    rest.append(place)
                continue
            if region is not last_region:
                last_region, shift = region, region.offset - region.start
                known = self._files.known(pid, region) if self._here else _NOTHING
            if (name := known.get(address + shift)) is not None:
                names[place] = name
            else:
                rest.append(place)
        if self._here:
            self._files.look_up((asked[it][0], regions[it], asked[it][1]) for it in rest)
        late: list[int] = []
        for place in rest:
            pid, address, _ = asked[place]
            names[place], final = self._said(pid, regions[place], address)
            if not final:
                late.append(place)
        return names, late

    def _said(self, pid: int, region: Region | None, address: int) -> tuple[str, bool]:
        if not self._here:
            return (UNKNOWN if region is None or region.kind == "jit" else _unnamed(region, address)), True
        if region is None:
            # No address at all, or memory that a JIT added to its own.
            name, final = self._perf_maps.name(pid, address) if self._perf_maps.known(pid) else (None, True)
            return name or UNKNOWN, final
        if region.kind == "jit":
            name, final = self._perf_maps.name(pid, address)
            return name or UNKNOWN, final
        if region.kind not in ("file", "vdso"):
            return region.path, True
        name, final = self._files.name(region, address)
        return (name, final) if name is not None else (_unnamed(region, address), final)

    @property
    def unnamed(self) -> dict[int, str]:
        """Processes with a map of compiled functions that is not used, and why; the last few."""
        return dict(list(self._perf_maps.why.items())[-MOST_REASONS:])

    def unread(self) -> Iterator[tuple[str, str, str]]:
        """What could not be read, why, and of which process, whose functions have no names; of all, if of none."""
        yield from ((f"/proc/{pid}/maps", why, f"pid:{pid}") for pid, why in self._mappings.unread.items())
        if self._aside.why_full:
            yield "/proc/PID/map_files", self._aside.why_full, ""


def _unnamed(region: Region, address: int) -> str:
    if region.kind != "file":
        return region.path  # the kernel's own words: [vdso], [vsyscall]
    return f"{_last_part(region.path)}+{region.at(address):#x}"


@lru_cache(4096)
def _last_part(path: str) -> str:
    return clean(path.rsplit("/", 1)[-1])
