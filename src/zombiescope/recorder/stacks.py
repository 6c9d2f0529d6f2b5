"""Stacks into the journal: raw samples in, rows with names out. Each new stack is named once.

A stack's id is a hash of its content, so the same stack has the same id in every segment and on every node. Samples
of an idle core are left out, judged by the leaf: softirq work on top of the idle task is kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.samples import SOURCE
from zombiescope.derived.gaps import GAP
from zombiescope.kernel.perf_event import RawSamples, Sampler, gaps
from zombiescope.kernel.perf_records import Comm, Exit, Fork
from zombiescope.kernel.perf_stacks import RawStack
from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.contents import Contents
from zombiescope.naming.kallsyms import Kallsyms
from zombiescope.naming.mappings import Mappings
from zombiescope.naming.opening import regular
from zombiescope.naming.perf_map import PerfMap
from zombiescope.naming.symbols import Symbols
from zombiescope.recorder.cgroup_paths import CgroupPaths
from zombiescope.recorder.layout import CGROUP
from zombiescope.recorder.loop import Sink

NAME = "stacks"  # as a probe is called
TAKEN, LOST, SYMBOLS = "samples_total", "samples_lost_total", "kernel_symbols"
GIVES = (TAKEN, LOST, GAP, SYMBOLS, CGROUP)
EVENTS = (GAP, CGROUP)
KALLSYMS = "/proc/kallsyms"
REFRESH = 10.0  # seconds between two checks for cores that were added or removed
_MOST_NAMES = 65_536  # threads whose name is remembered
_SOURCES = {SYMBOLS: KALLSYMS}


@dataclass(frozen=True, slots=True)
class _Named:
    """What is known of one raw stack."""

    id: int
    frames: tuple[str, ...]  # outermost first
    kernel: int  # how many of the last are the kernel's
    idle: bool


class StackStream:
    """Reads the sampler, writes to a journal or a tape. Notes what it cannot read at every sample, as probes do."""

    def __init__(self, host: Host, sink: Sink, *, hz: int, user: bool = True) -> None:
        self._host, self._sink = host, sink
        self._open = ExitStack()
        self._mappings = Mappings()
        self.kallsyms: Kallsyms | None = None
        self._cgroups: CgroupPaths | None = None
        self._unseen: list[Blind] = []
        self._sampler = self._opened(hz, user)
        self._maps: dict[int, PerfMap] = {}
        self._symbols = Symbols(self.kallsyms, _file, perf_maps=self._maps)
        self._known: dict[int, _Named] = {}
        self._kernel_names: dict[int, str] = {}
        self._next = 0
        self._comms: dict[int, str] = {}
        self._written: set[int] = set()
        self._segment = -1
        self._ahead = time.time_ns() - time.monotonic_ns()
        self._refreshed = time.monotonic()
        self._last: dict[int, int] = {}
        self.samples = self.lost = 0

    def _opened(self, hz: int, user: bool) -> Sampler | None:
        try:
            sampler = self._open.enter_context(Sampler(hz=hz, user=user))
        except Unreadable as error:
            self._unseen = [Blind(what=what, source=SOURCE, why=str(error)) for what in GIVES]
            return None
        self._unseen += [Blind(what=TAKEN, source=SOURCE, why=why, subject="node") for why in sampler.blind]
        if sampler.event != "cpu-clock":
            self._unseen.append(Blind(what=GAP, source=SOURCE, why=f"sampled by {sampler.event}: a gap is idleness"))
        try:
            self.kallsyms = _kernel_symbols(self._host)
        except (Unreadable, Unparsable) as error:
            self._unseen.append(Blind(what=SYMBOLS, source=error.source, why=error.why))
        try:
            self._cgroups = self._open.enter_context(CgroupPaths(self._host))
        except (Unreadable, Unparsable) as error:
            self._unseen.append(Blind(what=CGROUP, source=error.source, why=error.why))
        return sampler

    def __enter__(self) -> StackStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def blind(self) -> list[str]:
        return list(dict.fromkeys(f"{it.why} ({it.source})" for it in self._unseen))

    @property
    def hz(self) -> int:
        """Samples per second on each core, as the kernel grants it; 0 if there are none."""
        return self._sampler.hz if self._sampler else 0

    @property
    def event(self) -> str:
        return self._sampler.event if self._sampler else ""

    def read(self) -> None:
        """All samples since the last call."""
        if self._sampler is not None:
            self._take(self._sampler)
        at = self._host.now()
        said = {TAKEN: self.samples, LOST: self.lost, SYMBOLS: float(self.kallsyms is not None)}
        for what, value in said.items() if self._sampler is not None else ():
            self._sink.add(Reading(what=what, subject="node", value=value, at=at, source=_SOURCES.get(what, SOURCE)))
        self._sink.look(NAME, GIVES, at, self._unseen)

    def _take(self, sampler: Sampler) -> None:
        taken = sampler.read()
        self._mappings.feed(taken.records)
        for record in taken.records:
            if isinstance(record, Comm):
                self._comms[record.tid] = record.comm
            elif isinstance(record, Fork) and record.parent_tid in self._comms:
                self._comms[record.tid] = self._comms[record.parent_tid]
        self.lost += taken.lost
        if len(taken.time_ns):
            self._mappings.see(np.unique(taken.pid).tolist(), time.monotonic_ns())
            self._name_new(sampler, taken)
            self._write(taken)
            if sampler.event == "cpu-clock":
                self._gaps(sampler, taken)
        for record in taken.records:
            if isinstance(record, Exit):  # only now: its last samples were written with its name
                self._comms.pop(record.tid, None)
        if time.monotonic() - self._refreshed > REFRESH:
            self._refreshed = time.monotonic()
            sampler.refresh()

    def _name_new(self, sampler: Sampler, taken: RawSamples) -> None:
        """Stacks that were never seen: each is named once, at the time of its first sample."""
        fresh = sampler.stacks(self._next)
        if not fresh:
            return
        first_seen = dict(zip(taken.stack[::-1].tolist(), taken.time_ns[::-1].tolist(), strict=True))
        for number, raw in enumerate(fresh, self._next):
            self._known[number] = self._named(raw, first_seen.get(number, int(taken.time_ns[-1])))
        self._next += len(fresh)
        if len(self._known) > 2 * _MOST_NAMES:  # the sampler has dropped the older half too
            oldest = sorted(self._known)[: len(self._known) // 2]
            for number in oldest:
                del self._known[number]

    def _named(self, raw: RawStack, at: int) -> _Named:
        kernel = self._kernel(raw.kernel)
        user = [self._user(raw.pid, address, at) for address in raw.user]
        frames = tuple(_printable(name) for name in (*reversed(user), *reversed(kernel)))
        digest = hashlib.blake2b("\0".join((str(len(kernel)), *frames)).encode(), digest_size=8)
        return _Named(
            int.from_bytes(digest.digest(), "little"), frames, len(kernel), bool(kernel) and is_idle(kernel[0])
        )

    def _kernel(self, addresses: Sequence[int]) -> list[str]:
        """Most frames of a new stack were in others before: only new ones are looked up."""
        names = self._kernel_names
        fresh = [address for address in addresses if address not in names]
        if fresh:
            if len(names) > _MOST_NAMES:
                names.clear()
                fresh = list(addresses)
            names.update(zip(fresh, self._symbols.kernels(np.array(fresh, np.uint64)), strict=True))
        return [names[address] for address in addresses]

    def _user(self, pid: int, address: int, at: int) -> str:
        place = self._mappings.locate(pid, address, at)
        if place is None:
            return "[unknown]"
        if place.kind == "jit":
            if pid not in self._maps:
                self._maps[pid] = _perf_map(pid)
            return self._symbols.jit(pid, address)
        if place.kind != "file":
            return place.path or f"[{place.kind}]"
        return self._symbols.user(place.path, place.build_id.hex(), place.file_offset)

    def _write(self, taken: RawSamples) -> None:
        if self._sink.began != self._segment:  # each segment holds all the stacks it refers to
            self._segment = self._sink.began
            self._written.clear()
        known = self._known
        named = [known[number] for number in taken.stack.tolist()]
        busy = np.array([not stack.idle for stack in named], np.bool_)
        kept = [stack for stack in named if not stack.idle]
        fresh = {stack.id: stack for stack in kept if stack.id not in self._written}
        if fresh:
            self._written |= fresh.keys()
            frames = {
                "frames": [stack.frames for stack in fresh.values()],
                "kernel_frames": [it.kernel for it in fresh.values()],
            }
            self._sink.chunk("stacks", {"stack": list(fresh), **frames})
        self.samples += len(kept)
        if not kept:
            return
        tid = taken.tid[busy]
        self._sink.chunk(
            "samples",
            {
                "at": taken.time_ns[busy] + self._ahead,
                "cpu": taken.cpu[busy],
                "pid": taken.pid[busy],
                "tid": tid,
                "comm": [self._comm(number) for number in tid.tolist()],
                "cgroup": taken.cgroup[busy],
                "stack": np.array([stack.id for stack in kept], np.uint64),
            },
        )
        if self._cgroups is not None:
            self._cgroups.tell(self._sink, taken.cgroup[busy], self._host.now())

    def _comm(self, tid: int) -> str:
        if tid not in self._comms:
            if len(self._comms) > _MOST_NAMES:
                self._comms.clear()
            try:
                name = self._host.read(f"/proc/{tid}/comm", most=100).rstrip("\n") if tid > 0 else "swapper"
            except Unreadable:
                name = "?"
            self._comms[tid] = _printable(name)
        return self._comms[tid]

    def _gaps(self, sampler: Sampler, taken: RawSamples) -> None:
        """Periods in which a core could not be sampled: interrupts were off."""
        cores = np.array(list(self._last), np.uint16)
        times = np.concatenate([np.array(list(self._last.values()), np.int64), taken.time_ns])
        found = gaps(times, np.concatenate([cores, taken.cpu]), sampler.hz, records=taken.records)
        for cpu, start, length in zip(
            found.cpu.tolist(), found.start_ns.tolist(), found.length_ns.tolist(), strict=True
        ):
            at = (start + self._ahead) / 1e9
            self._sink.add(Reading(what=GAP, subject=f"cpu:{cpu}", value=length / 1e9, at=at, source=SOURCE))
        for cpu in np.unique(taken.cpu).tolist():
            self._last[cpu] = int(taken.time_ns[taken.cpu == cpu].max())


def _kernel_symbols(host: Host) -> Kallsyms:
    symbols = Kallsyms.parse(host.read_bytes(KALLSYMS, most=64 << 20))
    if symbols.zeroed:
        raise Unreadable(
            KALLSYMS,
            "addresses are hidden, so kernel functions have no names: run as root, or set kernel.kptr_restrict=0",
        )
    return symbols


def _file(path: str, _build_id: str) -> Contents | None:
    try:
        return regular(path)
    except Unreadable:
        return None


def _perf_map(pid: int) -> PerfMap:
    """Functions that a program compiled at run time, from its perf map."""
    try:
        with open(f"/proc/{pid}/root/tmp/perf-{pid}.map", "rb") as file:
            return PerfMap.parse(file.read(64 << 20))
    except OSError:
        return PerfMap.parse(b"")


def _printable(name: str) -> str:
    """Arrow stores UTF-8 only; other bytes are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()
