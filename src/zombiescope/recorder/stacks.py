"""Stacks into the journal: raw samples in, rows with names out. Each new stack is named once.

A stack's id is a hash of its content, so the same stack has the same id in every segment and on every node. Samples
of an idle core are left out, judged by the leaf: softirq work on top of the idle task is kept.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.samples import SOURCE
from zombiescope.derived.gaps import GAP
from zombiescope.kernel.perf_event import RawSamples, Sampler, gaps
from zombiescope.kernel.perf_records import Comm, Exit, Fork
from zombiescope.kernel.perf_stacks import RawStack
from zombiescope.naming.clean import thread_name
from zombiescope.naming.kallsyms import Kallsyms
from zombiescope.naming.kernel_names import KALLSYMS, KernelNames, kernel_symbols
from zombiescope.naming.namer import Named, Namer
from zombiescope.recorder.cgroup_paths import CgroupPaths
from zombiescope.recorder.clock import ahead_ns
from zombiescope.recorder.layout import CGROUP
from zombiescope.recorder.loop import Sink

NAME = "stacks"  # as a probe is called
TAKEN, LOST, SYMBOLS, USER_SYMBOLS = "samples_total", "samples_lost_total", "kernel_symbols", "user_symbols"
GIVES = (TAKEN, LOST, GAP, SYMBOLS, USER_SYMBOLS, CGROUP)
EVENTS = (GAP, CGROUP)
REFRESH = 10.0  # seconds between two checks for cores that were added or removed
_MOST_NAMES = 65_536  # threads whose name is remembered
_MOST_UNSETTLED = 4096  # stacks whose names may become better
_TRIES = 5  # for each of them, if it is sampled again: after 1, 2, 4, 8 and 16 reads
_SOURCES = {SYMBOLS: KALLSYMS}


@dataclass(frozen=True, slots=True)
class _Stack:
    """A stack with its names."""

    id: int
    named: Named


class StackStream:
    """Reads the sampler, writes to a journal or a tape. Notes what it cannot read at every sample, as probes do."""

    def __init__(self, host: Host, sink: Sink, *, hz: int, user: bool = True) -> None:
        self._host, self._sink = host, sink
        self._open = ExitStack()
        self.kallsyms: Kallsyms | None = None
        self._cgroups: CgroupPaths | None = None
        self._unseen: list[Blind] = []
        self._sampler = self._opened(hz, user)
        reported = self._sampler is not None and self._sampler.reports_code
        self._namer = Namer(KernelNames(host, self.kallsyms, reported=reported) if self.kallsyms else None)
        self._known: dict[int, _Stack] = {}
        self._unsettled: dict[int, tuple[RawStack, int, int]] = {}  # how often it was tried, and the next read for it
        self._reads = 0
        self._next = 0
        self._comms: dict[int, str] = {}
        self._written: set[int] = set()
        self._segment = -1
        self._ahead = ahead_ns()
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
            self.kallsyms = kernel_symbols(self._host)
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
        said = {TAKEN: self.samples, LOST: self.lost, SYMBOLS: float(self.kallsyms is not None), USER_SYMBOLS: 1.0}
        for what, value in said.items() if self._sampler is not None else ():
            self._sink.add(Reading(what=what, subject="node", value=value, at=at, source=_SOURCES.get(what, SOURCE)))
        unnamed = [
            Blind(what=USER_SYMBOLS, source=f"/proc/{pid}/root", why=why, subject=f"pid:{pid}")
            for pid, why in self._namer.unnamed.items()
        ]
        self._sink.look(NAME, GIVES, at, self._unseen + unnamed)

    def _take(self, sampler: Sampler) -> None:
        taken = sampler.read()
        self._forget(sampler)  # also if there is nothing new to name
        self._ahead = ahead_ns()  # the wall clock may have been set since the last read
        self._namer.feed(taken.records)
        for record in taken.records:
            if isinstance(record, Comm):
                self._comms[record.tid] = thread_name(record.comm)
            elif isinstance(record, Fork) and record.parent_tid in self._comms:
                self._comms[record.tid] = self._comms[record.parent_tid]
        self.lost += taken.lost
        if len(taken.time_ns):
            self._namer.see(np.unique(taken.pid).tolist(), time.monotonic_ns())
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
        """Stacks that were never seen are named, at the time of their first sample; and some others once more."""
        fresh = sampler.stacks(self._next)
        self._reads += 1
        due = {number for number, (_, _, read) in self._unsettled.items() if read <= self._reads}
        again = due.intersection(taken.stack.tolist()) if due else due
        if not fresh and not again:
            return
        first_seen = dict(zip(taken.stack[::-1].tolist(), taken.time_ns[::-1].tolist(), strict=True))
        for number in again:
            raw, tries, _ = self._unsettled.pop(number)
            self._name(number, raw, first_seen[number], tries)
        for number, raw in enumerate(fresh, self._next):
            self._name(number, raw, first_seen.get(number, int(taken.time_ns[-1])), 0)
        self._next += len(fresh)

    def _forget(self, sampler: Sampler) -> None:
        """Exactly what the sampler has forgotten: never a stack that a sample of this read speaks of."""
        if len(self._known) > self._next - sampler.oldest:
            self._known = {number: stack for number, stack in self._known.items() if number >= sampler.oldest}
            self._unsettled = {number: it for number, it in self._unsettled.items() if number >= sampler.oldest}

    def _name(self, number: int, raw: RawStack, at: int, tries: int) -> None:
        named = self._namer.stack(raw, at)
        digest = hashlib.blake2b("\0".join((str(named.kernel), *named.frames)).encode(), digest_size=8)
        self._known[number] = _Stack(int.from_bytes(digest.digest(), "little"), named)
        if not named.final and tries < _TRIES and len(self._unsettled) < _MOST_UNSETTLED:
            self._unsettled[number] = raw, tries + 1, self._reads + 2**tries

    def _write(self, taken: RawSamples) -> None:
        if self._sink.began != self._segment:  # each segment holds all the stacks it refers to
            self._segment = self._sink.began
            self._written.clear()
        known = self._known
        stacks = [known[number] for number in taken.stack.tolist()]
        busy = np.array([not stack.named.idle for stack in stacks], np.bool_)
        kept = [stack for stack in stacks if not stack.named.idle]
        fresh = {stack.id: stack for stack in kept if stack.id not in self._written}
        if fresh:
            self._written |= fresh.keys()
            frames = {
                "frames": [stack.named.frames for stack in fresh.values()],
                "kernel_frames": [stack.named.kernel for stack in fresh.values()],
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
                **({} if self.event == "cpu-clock" else {"weight": taken.weight_ns[busy]}),
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
            self._comms[tid] = thread_name(name)
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
