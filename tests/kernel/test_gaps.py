"""Spells without interrupts are gaps between samples; idleness and lost samples are not."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import CANNOT
from tests.kernel.sampler import Sampler
from tests.kernel.sampling import SPIN, Start, collected, column, last_cpu, records

from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R8, R9, Assembler, Helper
from zombiescope.kernel.perf_changes import Throttle
from zombiescope.kernel.perf_event import gaps

kernel = pytest.mark.kernel


def busy(array: bpf.Array, times: int) -> bpf.Program:
    """A program that reads the kernel's memory so many times."""
    program = Assembler()
    program.load_map_value(R9, array.descriptor)
    program.call(Helper.GET_CURRENT_TASK)
    program.set(R8, R0)
    program.set(R6, 0)
    program.label("again")
    program.set(R1, R9)
    program.set(R2, 4096)
    program.set(R3, R8)
    program.call(Helper.PROBE_READ_KERNEL)
    program.add(R6, 1)
    program.jump_if(R6, "<", times, "again")
    program.set(R0, 0)
    program.exit()
    return bpf.Program(program.assemble(), "test_busy")


def busy_for(array: bpf.Array, seconds: float) -> bpf.Program:
    """The same for so long: never by guess, as it is run where nothing can stop it."""
    with busy(array, 1000) as program:
        return busy(array, max(1, min(100_000, int(seconds / time_of(program) * 1000))))


def time_of(program: bpf.Program) -> float:
    """How long it runs, whoever else wants this core."""
    took = []
    for _ in range(5):
        before = time.thread_time()
        program.run()
        took.append(time.thread_time() - before)
    return min(took)


@kernel
def test_a_core_without_interrupts_is_a_gap(start: Start) -> None:
    here, there = min(os.sched_getaffinity(0)), last_cpu()
    if here == there:
        pytest.skip(f"{CANNOT}interrupt another core (it has one)")
    affinity = os.sched_getaffinity(0)
    start(SPIN, there)
    spells: list[int] = []
    try:
        with Sampler(hz=499) as sampler, bpf.Array(4096, "test_gap") as array:
            if sampler.event != "cpu-clock":
                pytest.skip(f"{CANNOT}miss a core without interrupts (it has a PMU)")
            os.sched_setaffinity(0, {here})
            with busy_for(array, 0.020) as program:
                # BPF_F_TEST_RUN_ON_CPU runs it in an interrupt of the other core, where no other can get in.
                attributes = struct.pack("=I60xII", program.descriptor, 1, there)
                buffer = ctypes.create_string_buffer(attributes, len(attributes))
                took, reads = 1e9 * time_of(program), [sampler.read()]
                for _ in range(13):
                    spells.append(time.monotonic_ns())
                    assert bpf.BPF(10, buffer, len(attributes)) == 0
                    time.sleep(0.03)
                    reads.append(sampler.read())
    except Unreadable as no:
        pytest.skip(f"{CANNOT}run a program with interrupts off ({no})")
    finally:
        os.sched_setaffinity(0, affinity)
    found = gaps(column(reads, "time_ns"), column(reads, "cpu").astype(np.uint16), 499, records=records(reads))
    if took < 5e6:
        pytest.skip(f"{CANNOT}be kept busy long enough by that program: {took / 1e6} ms")
    seen = 0
    for begin in spells:
        its = (found.cpu == there) & (found.start_ns < begin + took / 2) & (found.start_ns + found.length_ns > begin)
        seen += bool((found.length_ns[its] > 0.7 * took).any())
    assert seen >= 8, f"one in ten may end on the grid, not {len(spells) - seen} of {len(spells)}"


PERIOD = 1_000_000_000 // 49


def ticks(*numbers: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([int(number * PERIOD) for number in numbers], np.int64)


def test_a_late_tick_ends_a_gap_and_a_missing_one_does_not() -> None:
    late = ticks(0, 1, 2, 5.4, 6, 7, 8, 20, 21, 22.9, 23)  # late at 5.4; silent from 8 to 20; a little late at 22.9
    steady = ticks(*range(24))
    times, cpu = np.concatenate([steady, late]), np.repeat(np.array([3, 7], np.uint16), [len(steady), len(late)])
    mixed = np.random.default_rng(7).permutation(len(times))
    found = gaps(times[mixed], cpu[mixed], 49)
    assert found.cpu.tolist() == [7] and found.start_ns.tolist() == [2 * PERIOD]
    assert found.length_ns.tolist() == [int(5.4 * PERIOD) - 2 * PERIOD]
    assert len(gaps(times, cpu, 49, periods=1.5).cpu) == 2
    throttled = Throttle(3 * PERIOD, 7, True)
    assert len(gaps(times, cpu, 49, records=[throttled]).cpu) == 0
    assert len(gaps(times, cpu, 49, records=[Throttle(3 * PERIOD, 3, True)]).cpu) == 1


def test_no_samples_no_gaps() -> None:
    for many in (0, 1):
        found = gaps(np.zeros(many, np.int64), np.zeros(many, np.uint16), 49)
        assert len(found.cpu) == len(found.start_ns) == len(found.length_ns) == 0


@kernel
def test_idle_cores_have_no_gaps() -> None:
    with Sampler(hz=49) as sampler:
        if sampler.event != "cpu-clock":
            pytest.skip(f"{CANNOT}tick when idle (it has a PMU)")
        stolen = steal()
        with collected(sampler, 2.0) as reads:
            stolen = steal() - stolen
    found = gaps(column(reads, "time_ns"), column(reads, "cpu").astype(np.uint16), 49, records=records(reads))
    # Only a core that the host did not run, told in ticks of 10 ms, or a kernel busy with itself, may leave one.
    assert len(found.cpu) <= 1 + stolen, found


def steal() -> int:
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
