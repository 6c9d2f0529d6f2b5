"""The rings of a head: raw records in; samples, stacks, gaps, names of threads and paths of cgroups out.

In batches of some seconds, in order of time across all cores. Samples of an idle core are left out, judged by the leaf:
softirq work on top of the idle task is kept.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.perf_changes import Comm, Fork, NewCgroup, Throttle
from zombiescope.kernel.perf_event import gaps
from zombiescope.kernel.perf_weights import Weights
from zombiescope.naming.kernel_names import KALLSYMS, KernelOnce
from zombiescope.naming.namer import Namer
from zombiescope.naming.ranges import distinct
from zombiescope.recorder.carry import MOST_THREADS, Carry, carried, kept_cgroups, kept_mappings, restored
from zombiescope.recorder.cgroup_paths import CgroupPaths
from zombiescope.recorder.clock import seconds
from zombiescope.recorder.greedy import Greedy
from zombiescope.recorder.head import LEFT_OUT, RING, Record
from zombiescope.recorder.head import LOST as LOST_RECORDS
from zombiescope.recorder.layout import CGROUP
from zombiescope.recorder.own_forks import OwnProcesses
from zombiescope.recorder.perf_records import Parsed, parse
from zombiescope.recorder.readings import ReadingRows
from zombiescope.recorder.running import Running, not_idle
from zombiescope.recorder.sample_reader import SettledSamples
from zombiescope.recorder.side_band import MOST_UNKNOWN
from zombiescope.recorder.sources import Ring
from zombiescope.recorder.stack_names import StackNames
from zombiescope.recorder.stack_series import GAP, GIVES, LOST, NAME, SOURCE, SYMBOLS, TAKEN, USER_SYMBOLS
from zombiescope.recorder.tasks import MOST_NS, Batch, Part, Tasks, unknown_pids
from zombiescope.recorder.thread_names import UNKNOWN, ThreadNames

SNAPSHOTS = 256  # processes whose mappings are read for one batch
MOST_DAMAGE = 20
FEW_PAGES = 300  # in which programs were sampled: then some hundred functions of the kernel are in stacks
ELSEWHERE = "recorded on another machine, or before it was started again"
Machine = tuple[Host | None, str, KernelOnce]
Opened = TypeVar("Opened")


class SettledStacks:
    """Takes the rings of one head; a context manager."""

    def __init__(
        self, machine: Machine, rows: ReadingRows, ours: OwnProcesses, carry: Carry, tasks: Tasks, hz: float
    ) -> None:
        """`machine`: the one that was recorded, if it is this one in this boot, else why not; and its kernel. `tasks`:
        all that are in the head. `hz`: the rate at which the recording began, for which no weight is written."""
        host, self._elsewhere, kernel = machine
        self._hz = hz
        self._weights: Weights | None = None
        self._rows, self._carry, self._ours = rows, carry, ours
        self._execed, self._spans = tasks.execed, tasks.spans()
        needed = tasks.needed(self._spans)
        self._running = Running(host) if host is not None else None
        self._open = ExitStack()
        self.blind: list[Blind] = []  # as the capture said
        self._unseen: list[Blind] = []
        self.damage: list[str] = []
        self._cgroups = self._opened(CGROUP, "/sys/fs/cgroup", host, CgroupPaths)
        self._open.enter_context(self._cgroups or nullcontext())
        self._paths: dict[int, str] = dict(carry.cgroups)
        self._told_cgroups: set[int] = set()
        many = needed.pages is None or len(needed.pages) > FEW_PAGES
        asked = partial(kernel.names, many=many)
        names = kernel.saved(but=host) or self._opened(SYMBOLS, KALLSYMS, host, asked)
        self._named = names is not None
        self._mappings = restored(carry)
        self._namer = Namer(names, self._mappings, here=host is not None)
        self._stacks = StackNames(self._namer)
        self._threads = ThreadNames(carry.comms)
        self._batch = Batch(needed)
        self._drains: list[tuple[int, int]] = []  # when the rings were read, and the clock then
        self._ahead = self._now = 0
        self._kind: tuple[str, float, bool] = ("", 0.0, True)  # event, rate and whether samples have a cgroup
        self._last: dict[int, int] = dict(carry.last)
        self._throttles: list[Throttle] = []
        self._unknown: list[tuple[int, int]] = []  # processes of which records are missing, and since when
        self._taken, self._lost = carry.taken, carry.lost
        self._told: dict[int, int] = {}  # lost, by core: as the records say, and as the events counted
        self._counted: dict[int, int] = {}
        self._gone: set[int] = set()  # processes that cannot be asked any more
        self._greedy = Greedy()
        self._chunks: list[dict[str, npt.NDArray[Any]]] = []

    def __enter__(self) -> SettledStacks:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _opened(self, what: str, source: str, host: Host | None, opening: Callable[[Host], Opened]) -> Opened | None:
        """What is asked of this machine; None, with the reason, where it cannot be."""
        try:
            if host is None:
                raise Unreadable(source, self._elsewhere)
            return opening(host)
        except (Unreadable, Unparsable) as error:
            self._unseen.append(Blind(what=what, source=error.source, why=error.why))
            return None

    def take(self, ring: Ring, record: Record, ahead: int | None) -> None:
        """One record of a head; `ahead`: unix time minus its clock, if that is known."""
        if record.kind == RING and ahead is not None and record.at < 1 << 62:
            self._wait(Part(ring, record.at, bytes(record.content)), ahead)
        elif record.kind == LOST_RECORDS and len(record.content) == 8:
            self._counted[ring.cpu] = self._counted.get(ring.cpu, 0) + struct.unpack("<Q", record.content)[0]
        elif record.kind == LEFT_OUT and record.at < 1 << 62 and len(self._unknown) < MOST_UNKNOWN:
            self._unknown += [(it, record.at) for it in unknown_pids(record.content).tolist()]

    def _wait(self, part: Part, ahead: int) -> None:
        other = not part.ring.side and part.ring[1:4] != self._kind
        if ahead != self._ahead or other or self._batch.is_full(part):
            self._settle()
        self._ahead = ahead
        if other:
            self._kind = event, hz, _ = part.ring[1:4]
            self._weights = Weights(event, hz) if (event, hz) != ("cpu-clock", self._hz) else None
        self._batch.add(part)

    def look(self, at: int, ahead: int, blind: Sequence[Blind]) -> None:
        """The rings were read, whether or not there was anything in them; and what the capture could not see."""
        self.blind = list(blind)
        self._drains.append((at, ahead))

    def _settle(self) -> None:
        parts, starts = self._batch.taken()
        if not parts:
            return
        self._now = parts[-1].at
        event, hz, cgroup = self._kind
        parsed = parse([it.content for it in parts], cgroup=cgroup, starts=starts)
        self.damage += [f"a ring of samples: {it.text}" for it in parsed.damage[: MOST_DAMAGE - len(self.damage)]]
        for part, told in zip(parts, parsed.lost, strict=True):
            self._told[part.ring.cpu] = self._told.get(part.ring.cpu, 0) + told
        self._feed(parsed)
        busy = self._samples(parsed, {it.ring.cpu: it.ring.share for it in parts})
        if event == "cpu-clock" and hz > 0:
            self._gaps(parsed, hz)
        # A capture that does not say when it read them says it by what it read.
        drains = self._drains or [(at, self._ahead) for at in sorted({it.at for it in parts})]
        self._looks(drains, parsed.time_ns[busy], event)
        self._drains = []

    def _feed(self, parsed: Parsed) -> None:
        sampled = set(distinct(parsed.pid).tolist())
        if self._unknown:
            parsed.records.extend(self._begun())
            parsed.records.sort(key=lambda it: it.time_ns)
        forks = (it for it in parsed.records if isinstance(it, Fork) and it.pid != it.parent_pid and it.pid in sampled)
        self._see({it.parent_pid for it in forks})  # before its child, which has the same mappings
        self._namer.feed(parsed.records)
        self._threads.feed(parsed.records)
        self._ours.feed(parsed.records, self._ahead)
        self._throttles = [it for it in self._throttles if it.time_ns > self._now - 2 * MOST_NS]
        self._throttles += [it for it in parsed.records if isinstance(it, Throttle)]
        self._paths |= {it.id: it.path for it in parsed.records if isinstance(it, NewCgroup)}
        self._see(sampled)

    def _begun(self) -> list[Comm]:
        """As if each process of which records are missing began a program of which nothing is known."""
        unknown, self._unknown = self._unknown, []
        return [Comm(at, pid, pid, self._comm(pid), True) for pid, at in unknown]

    def _see(self, pids: set[int]) -> None:
        """Read the mappings of processes that began before recording did, and still run the same program."""
        if self._running is None:
            return
        wanted = [it for it in pids - self._execed - self._gone if it > 0 and not self._mappings.knows(it)]
        there = [it for it in wanted if self._running.since(it, self._now)]
        self._gone |= set(wanted) - set(there)
        if there:
            with not_idle():
                self._mappings.see(there, time.monotonic_ns(), at_most=SNAPSHOTS)

    def _comm(self, tid: int) -> str:
        return (self._running.thread(tid, self._now) if self._running is not None else "") or UNKNOWN

    def _samples(self, parsed: Parsed, shares: Mapping[int, float]) -> npt.NDArray[np.bool_]:
        programs = self._spans.programs(parsed.pid.astype(np.uint64), parsed.time_ns.view(np.uint64))
        stack = self._stacks.numbers(parsed.chains, parsed.time_ns, programs, parsed.cgroup)
        greedy = self._stacks.left_out | self._stacks.unnamed | self._threads.forgotten
        self._greedy.note(greedy, self._threads.now, self._comm)
        busy: npt.NDArray[np.bool_] = ~self._stacks.idle[stack]
        if not self._named:  # whether the idle task just idled only names can tell; nearly always it did
            busy &= parsed.pid != 0
        tid, time_ns, cgroup = parsed.tid[busy], parsed.time_ns[busy], parsed.cgroup[busy]
        weight = self._weights.of(parsed.time_ns, parsed.cpu, parsed.period, shares) if self._weights else None
        if len(tid):
            self._chunks.append(
                {
                    "at": time_ns + self._ahead,
                    "cpu": parsed.cpu[busy],
                    "pid": parsed.pid[busy],
                    "tid": tid,
                    "comm": self._threads.codes(parsed.pid[busy], tid, time_ns, self._comm),
                    "cgroup": cgroup,
                    "stack": stack[busy].astype(np.int32),
                    **({} if weight is None else {"weight": weight[busy]}),
                }
            )
            self._tell_cgroups(cgroup, seconds(int(time_ns[0]) + self._ahead))
        return busy

    def _tell_cgroups(self, cgroups: npt.NDArray[np.uint64], at: float) -> None:
        for number in sorted(set(distinct(cgroups).tolist()) - self._told_cgroups - {0}):
            self._told_cgroups.add(number)
            path, source = self._paths.get(number), SOURCE
            if path is None and self._cgroups is not None:
                path, source = self._cgroups.found(number)
            if path is not None:
                self._paths[number] = path
                self._rows.add(Reading(what=CGROUP, subject=f"cgroup:{path}", value=number, at=at, source=source))

    def _gaps(self, parsed: Parsed, hz: float) -> None:
        """Periods in which a core could not be sampled: interrupts were off."""
        cores = np.array(list(self._last), np.uint16)
        times = np.concatenate([np.array(list(self._last.values()), np.int64), parsed.time_ns])
        found = gaps(times, np.concatenate([cores, parsed.cpu]), hz, records=self._throttles)
        for cpu, start, length in zip(
            found.cpu.tolist(), found.start_ns.tolist(), found.length_ns.tolist(), strict=True
        ):
            at = seconds(start + self._ahead)
            self._rows.add(Reading(what=GAP, subject=f"cpu:{cpu}", value=length / 1e9, at=at, source=SOURCE))
        self._last.update(zip(parsed.cpu.tolist(), parsed.time_ns.tolist(), strict=True))  # they are in order of time

    def _looks(self, drains: list[tuple[int, int]], busy_ns: npt.NDArray[np.int64], event: str) -> None:
        """Every drain of the rings was a sample, as a probe's is."""
        lost = self._all_lost()
        unseen = self.blind + self._unseen
        if event not in ("cpu-clock", "") and not any(it.what == GAP for it in unseen):
            unseen.append(Blind(what=GAP, source=SOURCE, why=f"sampled by {event}: a gap is idleness"))
        unseen += [
            Blind(what=USER_SYMBOLS, source=f"/proc/{pid}/root", why=why, subject=f"pid:{pid}")
            for pid, why in self._namer.unnamed.items()
        ]
        unread = self._namer.unread()
        unseen += [Blind(what=USER_SYMBOLS, source=it, why=why, subject=whose) for it, why, whose in unread]
        until = np.searchsorted(busy_ns, [at for at, _ in drains], side="right")
        for (at_ns, ahead), taken in zip(drains, until.tolist(), strict=True):
            at = seconds(at_ns + ahead)
            said = {TAKEN: self._taken + taken, LOST: lost, SYMBOLS: float(self._named), USER_SYMBOLS: 1.0}
            for what, value in said.items():
                source = KALLSYMS if what == SYMBOLS else SOURCE
                self._rows.add(Reading(what=what, subject="node", value=value, at=at, source=source))
            self._rows.look(NAME, GIVES, at, unseen)
        self._taken += len(busy_ns)

    def _all_lost(self) -> int:
        """A loss is reported twice, by the records and by the event's own count, and the larger count is true."""
        cores = self._told.keys() | self._counted.keys()
        return self._lost + sum(max(self._told.get(it, 0), self._counted.get(it, 0)) for it in cores)

    def finish(self) -> Carry:
        """No more comes; what the next head needs to know."""
        self._settle()
        if self._drains:
            self._looks(self._drains, np.empty(0, np.int64), self._kind[0])
        self._namer.feed(self._begun())
        self.damage += [f"functions have no names: {it} gave {why}" for it, why, _ in self._namer.unread()]
        self.damage += self._greedy.all_said(self._stacks.left_out, self._stacks.unnamed, self._threads.forgotten)
        if self._cgroups is not None and self._cgroups.left_out:
            self.damage.append(f"{self._cgroups.left_out:,} cgroups have no path: too many are new in one segment")
        return carried(
            self._carry,
            end=self._now,
            mappings=kept_mappings(self._mappings),
            comms={tid: name for tid, name in self._threads.kept(MOST_THREADS).items() if name != UNKNOWN},
            last=self._last,
            cgroups=kept_cgroups(self._paths, self._told_cgroups),
            taken=self._taken,
            lost=self._all_lost(),
        )

    def let_go(self) -> None:
        """What gave names is not needed any more: symbols of the kernel, of files, mappings."""
        self._stacks.let_go()
        del self._namer, self._mappings

    def samples(self) -> SettledSamples:
        return SettledSamples(self._chunks, self._stacks, self._threads.words)
