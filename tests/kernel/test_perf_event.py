"""Sampling for real: known programs on known cores, and what becomes of their samples."""

from __future__ import annotations

import dataclasses
import fcntl
import mmap
import os
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import CANNOT
from tests.kernel.sampler import Sampler
from tests.kernel.sampling import READ, SPIN, Start, collected, column, cpu_seconds, descriptors, last_cpu
from tests.waiting import HANGS, until

from zombiescope.core.errors import UserError
from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Ksymbol, Mmap, NewCgroup, Throttle
from zombiescope.kernel.perf_open import Event, blindness
from zombiescope.kernel.perf_rings import MOST_BYTES, ROOMY, Ring, Rings, ring_size
from zombiescope.naming.mappings import Mappings
from zombiescope.recorder.perf_records import Parsed, parse

kernel = pytest.mark.kernel


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
    leaf = found.find(process.pid, in_process[0].user[0], int(times[-1]))
    assert leaf is not None and leaf.kind == "file" and leaf.path.endswith("/program0")
    callers = [found.find(process.pid, address, int(times[-1])) for address in in_process[0].user[1:]]
    assert leaf.path in [caller.path for caller in callers if caller], "main, which called it, is in its stack"


@kernel
def test_samples_of_a_clock_stand_for_equal_parts_of_the_time() -> None:
    with Sampler(hz=199) as sampler:
        if sampler.event != "cpu-clock":
            pytest.skip(CANNOT + f"sample by a clock: it samples by {sampler.event}")
        sampler.read()
        before = time.monotonic()
        with collected(sampler, 2.0) as reads:
            took = time.monotonic() - before
        shares = {it.share() for it in sampler._rings._rings.values()}
    weights = column(reads, "weight_ns")
    assert set(weights.tolist()) == {10**9 // 199} and shares == {1.0}
    of_core = np.bincount(column(reads, "cpu"), weights) / 1e9
    assert of_core.max() == pytest.approx(took, rel=0.05), "a core that idles for long is not sampled"


def test_a_counter_without_nmi_does_not_see_what_runs_with_interrupts_off() -> None:
    event = Event(name="cycles", hz=49, kernel=True, user=True)

    def blind(machine: str, options: str) -> bool:
        return any("pseudo_nmi" in sentence for sentence in blindness(event, 49, machine, options))

    assert blind("aarch64", "ro quiet") and blind("aarch64", "ro irqchip.gicv3_pseudo_nmi=0")
    assert not blind("aarch64", "ro irqchip.gicv3_pseudo_nmi=1 quiet") and not blind("x86_64", "ro quiet")


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
    its = [
        record
        for record in read.records
        if not isinstance(record, Throttle | Ksymbol | NewCgroup) and record.pid == child.pid
    ]
    assert [type(it) for it in its if not isinstance(it, Mmap)][:1] == [Fork]
    assert "sleep" in [it.comm for it in its if isinstance(it, Comm) and it.execed] and isinstance(its[-1], Exit)
    program = next(it for it in its if isinstance(it, Mmap) and it.path.endswith(("/sleep", "/coreutils")))
    assert len(program.build_id) == 20 or program.inode == os.stat(program.path).st_ino
    found.feed(read.records)
    place = found.find(child.pid, program.address + 8, its[-1].time_ns)
    assert place is not None
    assert (place.path, place.build_id) == (program.path, program.build_id)
    assert place.at(program.address + 8) == program.offset + 8


@kernel
def test_what_a_ring_has_no_space_for_is_counted_once(start: Start) -> None:
    start(SPIN, last_cpu())
    with Sampler(hz=997, size=mmap.PAGESIZE) as sampler:
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
        before, ring = descriptors(), sampler._rings._rings[last_cpu()]
        fcntl.ioctl(ring._descriptor, 0x2401, 0)  # PERF_EVENT_IOC_DISABLE: what a core does that goes offline
        for _ in range(3):
            sampler.refresh()
        assert sampler._rings._rings[last_cpu()] is not ring and descriptors() == before
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


def _parsed(ring: Ring, *, cgroup: bool) -> Parsed:
    return parse([ring.copy(ring.head)], cgroup=cgroup)


@kernel
@pytest.mark.parametrize("extra", WITH)
def test_a_kernel_that_offers_less_is_understood_as_well(start: Start, extra: str) -> None:
    for event in (POOR, WITH[extra]):
        try:
            ring = Ring(event, last_cpu(), 1 << 21)  # also for the compiler, and for others that work here
        except OSError as error:
            pytest.skip(f"{CANNOT}tell of {extra} ({error.strerror})")
        process = start(SPIN, last_cpu())
        read = partial(_parsed, ring, cgroup=event.cgroup)
        until(lambda: (read().pid == process.pid).sum() >= 4)  # noqa: B023  (it is called at once)
        parsed = read()
        assert parsed.damage == []
        its = [it for it in parsed.records if isinstance(it, Mmap) and it.pid == process.pid and "program" in it.path]
        # It may have been started on another core, whose ring would have it; the device is told if the build ID is not.
        assert all((it.inode == 0) == event.build_id and len(it.build_id) == 20 * event.build_id for it in its)
        assert ring.counts() and ring.count_lost(ring.size) == 0
        ring.close()
        assert any("Samples have no cgroup" in sentence for sentence in blindness(event, 199)) == (not event.cgroup)
        assert any("Mappings have no build ID" in sentence for sentence in blindness(event, 199)) == (
            not event.build_id
        )


@kernel
def test_without_rights_it_says_what_is_missing() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip(f"{CANNOT}take rights away (no setpriv)")
    script = (
        "from zombiescope.core.errors import Unreadable\n"
        "from zombiescope.kernel.perf_rings import Rings\n"
        "try:\n"
        "    with Rings() as rings:\n"
        "        print('blind', *rings.blind)\n"
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


@pytest.mark.parametrize(("hz", "size"), [(0, 1 << 18), (49, 512), (49, 3 << 16)])
def test_nonsense_is_refused(hz: int, size: int) -> None:
    with pytest.raises(UserError, match="a power of two"):
        Sampler(hz=hz, size=size)


@pytest.mark.parametrize(("hz", "cores"), [(1, 1), (49, 2), (49, 96), (49, 192), (999, 2), (999, 192), (9999, 1024)])
def test_rings_hold_three_seconds_of_deep_stacks_unless_there_are_very_many(hz: int, cores: int) -> None:
    size = ring_size(hz, cores)
    assert size & (size - 1) == 0 and size >= 1 << 16
    assert size * cores <= MOST_BYTES or size == 1 << 16
    if (1 << 18) * cores <= MOST_BYTES and hz < 100:
        assert size >= 3 * hz * 1024
        assert (size == ROOMY) == (cores <= 64), "what anybody may lock, and no more on a large node than it needs"


@kernel
def test_rate_and_stacks_change_while_it_samples_and_nothing_unread_is_lost(start: Start) -> None:
    process = start(SPIN, last_cpu())
    with Rings(hz=199) as rings:
        before = descriptors()
        time.sleep(0.6)
        rings.change(hz=49, user=False)
        assert descriptors() == before and rings.event.hz == 49 and not rings.event.user
        first = parse([it.content for it in rings.drain()], cgroup=rings.event.cgroup)
        time.sleep(0.6)
        second = parse([it.content for it in rings.drain()], cgroup=rings.event.cgroup)
    many, few = ((it.pid == process.pid).sum() for it in (first, second))
    assert many > 2 * few > 4, "what was sampled before the change is still there"
    assert (second.ip[second.pid == process.pid] > 0).all(), "the leaf is known without the program's stack"


@kernel
def test_who_waits_is_woken_when_a_ring_is_nearly_full(start: Start) -> None:
    start(SPIN, last_cpu())
    with Rings(hz=997, size=1 << 15) as rings:
        assert rings.wait(HANGS), "nobody woke it"
        assert max(len(it.content) for it in rings.drain()) >= 3 << 13
