"""Every memory cgroup of the machine, dying ones included, with what pins each dying one: one call, `walk()`.

Overhead: about 2 µs of kernel time per cgroup, in batches of some 0.15 ms; about 0.12 s once for reading BTF and
    verifying the program; 0.3 to 0.5 s of CPU and 80 MB in all for 20,000 dying cgroups. No tracepoint is
    used where programs can be run on demand (since v5.10).
Kernel: needs BTF, the memory controller of version 1 or 2, and CAP_BPF with CAP_PERFMON, or root. Works in a
    container too, and shows the whole machine from there. Refusals become Unreadable, with how to fix it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf, memcg_program
from zombiescope.kernel.btf import Btf
from zombiescope.kernel.memcg_layout import BROKEN, DONE, MORE, RECORD, STATE, STATE_BYTES
from zombiescope.kernel.memcg_offsets import Offsets, offsets_from
from zombiescope.kernel.memcg_records import MemoryCgroup, Pin, decode

__all__ = ["MemoryCgroup", "Pin", "Walk", "walk"]

_State = npt.NDArray[np.void]

# Each restart costs a walk. Under constant mkdir and rmdir 1 in 100 walks had one; this many mean it cannot be walked.
_MOST_RESTARTS = 50
# Seven times the worst node we know of, and half a gigabyte; and room for steps that only climb in a deep tree.
_MOST_CGROUPS = 500_000
_MOST_IDLE_BATCHES = 1_000
_NODES = "/sys/devices/system/node/has_memory"
_MOST_NODES = 64  # what the verifier accepts; pages on nodes beyond are not seen, the cgroups are
_TRACEPOINT = "sys_enter"
_ANOTHER_KERNELS = "or the BTF is another kernel's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """All memory cgroups, parents first, and what the walk cost."""

    cgroups: list[MemoryCgroup]
    version: int  # of the hierarchy the memory controller is on: 1 or 2
    restarts: int
    batches: int
    kernel_seconds: float  # in all batches
    longest_batch_seconds: float
    seconds: float  # from the call to the result


def walk(*, btf: str | None = None) -> Walk:
    """Visit every memory cgroup once; `btf` names a BTF file where the kernel has none of its own."""
    started = time.perf_counter()
    offsets = offsets_from(Btf.load(btf))
    nodes = _nodes()
    with ExitStack() as open_until_done:
        state = open_until_done.enter_context(bpf.Array(STATE_BYTES, "zombie_state"))
        visits = memcg_program.visits_per_batch(nodes)
        records = open_until_done.enter_context(bpf.Array(visits * RECORD.itemsize, "zombie_records"))
        run = _runner(open_until_done, offsets, state, records, nodes)
        batches = _Batches(state, records, run, visits)
        batches.run_all()
    version = 2 if batches.hierarchy == 0 else 1
    return Walk(
        cgroups=decode(batches.filled, offsets, version=version),
        version=version,
        restarts=batches.restarts,
        batches=batches.count,
        kernel_seconds=batches.total_ns / 1e9,
        longest_batch_seconds=batches.longest_ns / 1e9,
        seconds=time.perf_counter() - started,
    )


# Since 1b4d60ec162f (v5.10) a program can be run on demand. Before, it is attached to the entry of system calls, where
# it returns at once unless the thread that armed it makes the call, and is detached after the walk.
def _runner(stack: ExitStack, offsets: Offsets, state: bpf.Array, records: bpf.Array, nodes: int) -> Callable[[], None]:
    def load(armed: bool) -> bpf.Program:
        places = {"state": state.descriptor, "records": records.descriptor, "nodes": nodes}
        return stack.enter_context(bpf.Program(memcg_program.assemble(offsets, **places, armed=armed), "zombiescope"))

    program = load(armed=False)
    state.write(np.zeros(1, STATE).tobytes())
    try:
        program.run()  # with a limit of 0 visits: only to see whether it can be run
        return program.run
    except Unreadable as no:
        return _armed_runner(load(armed=True), state, no)


def _armed_runner(program: bpf.Program, state: bpf.Array, on_demand: Unreadable) -> Callable[[], None]:
    program.attach(_TRACEPOINT)
    thread = os.getpid() << 32 | threading.get_native_id()

    def run() -> None:
        now = np.frombuffer(state.read(STATE.itemsize), STATE).copy()
        now["armed"], now["started_ns"] = thread, 0
        state.write(now.tobytes())
        os.getppid()  # any system call will do
        if not np.frombuffer(state.read(STATE.itemsize), STATE)["started_ns"][0]:
            where = f"nor at {_TRACEPOINT}, where this thread has another number (a pid namespace)"
            raise Unreadable(bpf.SOURCE, f"a program cannot be run on demand ({on_demand.why}), {where}")

    return run


class _Batches:
    """Runs batches until the tree is done, and keeps what they filled in."""

    def __init__(self, state: bpf.Array, records: bpf.Array, run: Callable[[], None], visits: int) -> None:
        self._state, self._records, self._run, self._visits = state, records, run, visits
        self._met: set[int] = set()
        self._idle = 0
        self.filled = bytearray()
        self.count = self.restarts = self.total_ns = self.longest_ns = self.hierarchy = 0

    def run_all(self) -> None:
        now = np.zeros(1, STATE)
        now["limit"] = self._visits
        while True:
            self._state.write(now.tobytes())
            self._run()
            now = np.frombuffer(self._state.read(STATE.itemsize), STATE).copy()
            all_new = self._account(now)
            status = int(now["status"][0])
            # Proof that the walk was right: it has met our own cgroup.
            if status == DONE and all_new and int(now["own"][0]) in self._met:
                return
            if status == BROKEN or self._idle > _MOST_IDLE_BATCHES or len(self._met) > _MOST_CGROUPS:
                raise Unreadable(bpf.SOURCE, f"the links between memory cgroups are invalid; {_ANOTHER_KERNELS}")
            now["limit"] = self._visits
            if status != MORE or not all_new:
                self._begin_anew(now)

    # A walk meets no cgroup twice; if it does, links changed while they were read, or are invalid.
    def _account(self, now: _State) -> bool:
        took, filled = int(now["batch_ns"][0]), int(now["records"][0])
        self.count += 1
        self.total_ns += took
        self.longest_ns = max(self.longest_ns, took)
        self.hierarchy = int(now["hierarchy"][0])
        self._idle = 0 if filled else self._idle + 1
        batch = self._records.read(min(filled, self._visits) * RECORD.itemsize)
        self.filled += batch
        expected = len(self._met) + filled
        self._met.update(np.frombuffer(batch, RECORD)["serial"].tolist())
        return len(self._met) == expected

    # Usually the cursor was freed between two batches. What was seen will be seen again, so it is dropped. Batches of
    # the same length would end at the same css, which may be short-lived: so the first batch of a round is shorter.
    def _begin_anew(self, now: _State) -> None:
        self.restarts += 1
        if self.restarts > _MOST_RESTARTS:
            why = f"memory cgroups are created and removed too fast to be walked ({_MOST_RESTARTS} restarts)"
            raise Unreadable(bpf.SOURCE, f"{why}; {_ANOTHER_KERNELS}")
        self.filled.clear()
        self._met.clear()
        now["cursor"] = now["climbing"] = 0
        now["limit"] = 1 + self.restarts * 7 % self._visits


# 0-1,3
def _nodes() -> int:
    try:
        with open(_NODES, encoding="utf-8", errors="replace") as file:
            last = file.read().strip().replace("-", ",").rpartition(",")[2]
    except OSError:  # a kernel without NUMA has no such file, and one node
        return 1
    return min(int(last) + 1, _MOST_NODES) if last.isdigit() else 1
