"""Sampling for real: known programs on known cores, and what becomes of their samples."""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import os
import resource
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import CANNOT

from zombiescope.core.errors import Unreadable, UserError
from zombiescope.kernel import bpf
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R8, R9, Assembler, Helper
from zombiescope.kernel.mappings import Mappings
from zombiescope.kernel.perf_event import Sampler, Samples, gaps
from zombiescope.kernel.perf_records import Comm, Exit, Fork, Mmap, Record, Throttle, parse
from zombiescope.kernel.perf_ring import Event, Ring, blindness

kernel = pytest.mark.kernel
SPIN = "static volatile long n; void spin(void) { for (;;) n++; } int main(void) { spin(); }"
READ = """
#include <fcntl.h>
#include <unistd.h>
static char buffer[1 << 20];
int main(void) { int zero = open("/dev/zero", O_RDONLY); for (;;) read(zero, buffer, sizeof buffer); }
"""
Start = Callable[[str, int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Compile a program and run it on one core, ahead of everyone else; it ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def run(text: str, cpu: int) -> subprocess.Popen[bytes]:
        if shutil.which("gcc") is None:
            pytest.skip(f"{CANNOT}compile C (no gcc)")
        source, program = tmp_path / "program.c", tmp_path / f"program{len(running)}"
        source.write_text(text)
        flags = ["-O0", "-fno-omit-frame-pointer", "-w"]
        subprocess.run(["gcc", *flags, "-o", str(program), str(source)], check=True, timeout=60)
        running.append(subprocess.Popen([str(program)]))
        os.sched_setaffinity(running[-1].pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, running[-1].pid, -20)
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


def last_cpu() -> int:
    return max(os.sched_getaffinity(0))


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def collected(sampler: Sampler, seconds: float) -> Iterator[list[Samples]]:
    """Samples of so many seconds, read in between as a recorder does."""
    sampler.read()
    reads: list[Samples] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.2, left))
        reads.append(sampler.read())
    yield reads


def column(reads: list[Samples], name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([getattr(read, name) for read in reads]).astype(np.int64)


def records(reads: list[Samples]) -> list[Record]:
    return [record for read in reads for record in read.records]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@kernel
def test_a_program_that_spins_on_a_core_has_its_samples(start: Start) -> None:
    cpu, process = last_cpu(), start(SPIN, last_cpu())
    found = Mappings()
    with Sampler(hz=199) as sampler:
        sampler.read()
        ran, before = cpu_seconds(process.pid), time.monotonic()
        with collected(sampler, 2.0) as reads:
            ran, took = cpu_seconds(process.pid) - ran, time.monotonic() - before
        stacks = sampler.stacks(0)
    pid, on = column(reads, "pid"), column(reads, "cpu") == cpu
    its = on & (pid == process.pid)
    # Other programs may want the core, too; then the kernel's own account says what to expect.
    assert its.sum() / on.sum() >= min(0.95, ran / took - 0.03)
    assert its.sum() == pytest.approx(199 * ran, rel=0.05)
    assert not (pid[~on] == process.pid).any() and sum(read.lost for read in reads) == 0
    times = column(reads, "time_ns")
    assert (abs(times - time.monotonic_ns()) < 60e9).all()

    found.see([process.pid], time.monotonic_ns())
    mine = [stacks[number] for number in np.unique(column(reads, "stack")[its])]
    in_process = [stack for stack in mine if stack.user and not stack.kernel]
    assert in_process and all(stack.pid == process.pid for stack in in_process)
    leaf = found.locate(process.pid, in_process[0].user[0], int(times[-1]))
    assert leaf is not None and leaf.kind == "file" and leaf.path.endswith("/program0")
    callers = [found.locate(process.pid, address, int(times[-1])) for address in in_process[0].user[1:]]
    assert leaf.path in [caller.path for caller in callers if caller], "main, which called it, is in its stack"


@kernel
def test_work_in_the_kernel_has_the_kernels_frames(start: Start) -> None:
    process = start(READ, last_cpu())
    with Sampler(hz=199) as sampler, collected(sampler, 1.0) as reads:
        numbers = column(reads, "stack")[column(reads, "pid") == process.pid]
        stacks = sampler.stacks(0)
    both = [stack for stack in (stacks[number] for number in numbers.tolist()) if stack.kernel]
    assert len(both) >= 0.8 * len(numbers) > 0
    assert all(address >> 63 for stack in both for address in stack.kernel)
    assert any(stack.user and stack.pid == process.pid for stack in both)
    with Sampler(hz=199, user=False) as sampler, collected(sampler, 0.5):
        assert not any(stack.user or stack.pid for stack in sampler.stacks(0)), "the kernel's alone belong to no one"


@kernel
def test_fork_exec_and_exit_are_told_and_what_was_mapped() -> None:
    found = Mappings()
    with Sampler() as sampler:
        child = subprocess.Popen(["/bin/sleep", "0.1"])
        child.wait()
        read = sampler.read()
    its = [record for record in read.records if not isinstance(record, Throttle) and record.pid == child.pid]
    assert [type(it) for it in its if not isinstance(it, Mmap)][:1] == [Fork]
    assert "sleep" in [it.comm for it in its if isinstance(it, Comm) and it.execed] and isinstance(its[-1], Exit)
    program = next(it for it in its if isinstance(it, Mmap) and it.path.endswith(("/sleep", "/coreutils")))
    assert len(program.build_id) == 20 or program.inode == os.stat(program.path).st_ino
    found.feed(read.records)
    place = found.locate(child.pid, program.address + 8, its[-1].time_ns)
    assert place is not None
    assert (place.path, place.build_id, place.file_offset) == (program.path, program.build_id, program.offset + 8)


@kernel
def test_what_a_ring_has_no_space_for_is_counted_once(start: Start) -> None:
    start(SPIN, last_cpu())
    with Sampler(hz=997, pages=1) as sampler:
        time.sleep(1.0)
        first = sampler.read()
        on = first.cpu == last_cpu()
        assert first.lost > 500 and first.damage == []
        time.sleep(0.02)
        assert sampler.read().lost < 0.1 * first.lost, "the loss is told again in the ring"
        assert on.sum() + first.lost >= 0.9 * 997


@kernel
def test_nothing_is_lost_nor_left_open_and_memory_stays(start: Start) -> None:
    before = descriptors()
    start(SPIN, last_cpu())
    with Sampler(hz=999) as sampler:
        with collected(sampler, 1.0):
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with collected(sampler, 2.0) as reads:
            assert sum(read.lost for read in reads) == 0
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 8 << 10  # KB
        assert descriptors() > before
    assert descriptors() == before
    sampler.close()


@kernel
def test_an_event_that_is_dead_is_replaced_and_its_last_words_are_kept(start: Start) -> None:
    process = start(SPIN, last_cpu())
    with Sampler(hz=199) as sampler:
        time.sleep(0.2)
        before, ring = descriptors(), sampler._rings[last_cpu()]
        fcntl.ioctl(ring._descriptor, 0x2401, 0)  # PERF_EVENT_IOC_DISABLE: what a core does that goes offline
        for _ in range(3):
            sampler.refresh()
        assert sampler._rings[last_cpu()] is not ring and descriptors() == before
        assert set(sampler.cpus) == set(range(os.cpu_count() or 1))
        assert (sampler.read().pid == process.pid).sum() > 10
        time.sleep(0.2)
        assert (sampler.read().pid == process.pid).sum() > 10


POOR = Event(name="cpu-clock", hz=199, kernel=True, user=True)
WITH = {
    "cgroup": dataclasses.replace(POOR, cgroup=True),
    "build_id": dataclasses.replace(POOR, build_id=True),
    "counts_lost": dataclasses.replace(POOR, counts_lost=True),
}


@kernel
@pytest.mark.parametrize("extra", WITH)
def test_a_kernel_that_offers_less_is_understood_as_well(start: Start, extra: str) -> None:
    for event in (POOR, WITH[extra]):
        try:
            ring = Ring(event, last_cpu(), 16)
        except OSError as error:
            pytest.skip(f"{CANNOT}tell of {extra} ({error.strerror})")
        process = start(SPIN, last_cpu())
        time.sleep(0.2)
        parsed = parse([ring.copy(ring.head)], cgroup=event.cgroup)
        assert parsed.damage == [] and (parsed.pid == process.pid).sum() > 3
        its = [it for it in parsed.records if isinstance(it, Mmap) and it.pid == process.pid and "program" in it.path]
        # It may have been started on another core, whose ring would have it; the device is told if the build ID is not.
        assert all((it.inode == 0) == event.build_id and len(it.build_id) == 20 * event.build_id for it in its)
        assert ring.counts() and ring.count_lost(7, ring.size) == 7 and ring.count_lost(0, ring.size) == 0
        ring.close()
        assert any("cgroup of a sample" in sentence for sentence in blindness(event, 199)) == (not event.cgroup)
        assert any("Which build" in sentence for sentence in blindness(event, 199)) == (not event.build_id)


@kernel
def test_without_rights_it_says_what_is_missing() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip(f"{CANNOT}take rights away (no setpriv)")
    script = (
        "from zombiescope.core.errors import Unreadable\n"
        "from zombiescope.kernel.perf_event import Sampler\n"
        "try:\n"
        "    with Sampler() as sampler:\n"
        "        print('blind', *sampler.blind)\n"
        "except Unreadable as no:\n"
        "    print(no)\n"
    )
    rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    told = subprocess.run([*rights, sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    assert told.returncode == 0, told.stderr
    if paranoid > 0:
        assert told.stdout.startswith("perf_event_open(2): sampling all processes is not permitted")
        assert f"kernel.perf_event_paranoid is {paranoid}, and this process lacks CAP_PERFMON" in told.stdout
    else:
        assert told.stdout.startswith("blind")


@kernel
def test_what_it_cannot_see_is_told_with_the_cure() -> None:
    with Sampler() as sampler:
        assert sampler.event in ("cycles", "cpu-clock") and sampler.hz == 49
        assert all(": " in sentence and sentence.endswith(".") for sentence in sampler.blind)
        assert (sampler.event == "cpu-clock") == any("interrupts off" in sentence for sentence in sampler.blind)
    allowed = int(Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text())
    with Sampler(hz=allowed + 1) as sampler:
        assert sampler.hz == allowed and any("max_sample_rate" in sentence for sentence in sampler.blind)


@pytest.mark.parametrize(("hz", "pages"), [(0, 64), (49, 0), (49, 3)])
def test_nonsense_is_refused(hz: int, pages: int) -> None:
    with pytest.raises(UserError, match="a power of two"):
        Sampler(hz=hz, pages=pages)


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
                    assert bpf._libc.syscall(bpf._number(), 10, buffer, len(attributes)) == 0
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
