"""softirq_events: what is kept of many cores; and for real, a core whose softirqs are held off."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT, Run
from tests.kernel.refused import why_not
from tests.waiting import until

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.kernel import bpf
from zombiescope.kernel.core_times import CoreTimes, Times
from zombiescope.probes import irq_handler_events, napi_poll, softirq_events
from zombiescope.probes._core_times import bounded, histogram
from zombiescope.recorder.replay import opened

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: bpf(2) refuses everyone else")
CORE, OTHER = 1, 0
HOLDS, SECONDS = 7, 0.15
REST = 1.5
SET_UP = "from zombiescope.core import Host; from zombiescope.probes import softirq_events"


def row(core: int, kind: str, worst: float) -> Times:
    counts = [0] * 28
    counts[3], counts[15] = 10, 1
    return Times("waits", core, kind, tuple(counts), worst, 0.25)


def test_many_cores_stay_few_readings_the_worst_by_core_and_nothing_is_lost() -> None:
    kinds = [f"KIND{number}" for number in range(10)]
    rows = [row(core, kind, core / 1000 + 0.001) for core in range(192) for kind in kinds]
    found = list(bounded(rows, lambda core, kind: f"{kind}/{core}", 32))
    assert len(found) == 32 + len(kinds)
    assert [it.core for _, it in found[:10]] == [191] * 10
    assert {name for name, _ in found[32:]} == {f"{kind}/others" for kind in kinds}
    assert sum(sum(it.counts) for _, it in found) == 192 * 10 * 11
    assert max(it.worst for _, it in found[32:]) == pytest.approx(0.189)


def test_a_histogram_says_how_long_and_how_many() -> None:
    text = histogram(row(3, "NET_RX", 0.033).counts, 0.25, 2.004, 16)
    assert text == "2.00 s; 0.250000 s in all; one in 16 below 16384; from µs: 8:10 32768:1"


@pytest.mark.parametrize("probe", [softirq_events, irq_handler_events, napi_poll])
def test_switched_off_or_not_a_live_machine_is_blind(probe: object, tmp_path: Path) -> None:
    host = Host()
    host.bpf = False
    with pytest.raises(Unreadable, match="switched off by --no-bpf"), probe.watch(host):  # type: ignore[attr-defined]
        pass
    with pytest.raises(Unreadable, match="on a live machine"), probe.watch(Host(str(tmp_path), live=False)):  # type: ignore[attr-defined]
        pass


@pytest.mark.kernel
@ROOT
def test_softirqs_that_are_held_off_are_seen_on_that_core_and_on_no_other() -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip(CANNOT + "one core only")
    with softirq_events.watch(Host()) as look:
        list(look())
        argv = [sys.executable, "-m", "tests.kernel.holding", str(CORE), str(SECONDS), str(HOLDS)]
        held = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
        seen = {(it.what, it.subject): it for it in look() if isinstance(it, Reading)}
    longest = max(map(float, held.split()))
    # The scheduler's tick raises SCHED or TIMER within milliseconds of the start of each.
    waits = {kind: seen["softirq_wait_seconds", f"softirq:{kind}/{CORE}"] for kind in ("SCHED", "TIMER")}
    # Softirqs that were held off may then wait for ksoftirqd, which competes with all else that wants the core.
    assert 0.6 * longest < max(it.value for it in waits.values()) < 2 * longest + 1.0
    assert max(map(long_ones, waits.values())) >= HOLDS - 1
    elsewhere = [
        it.value
        for (what, subject), it in seen.items()
        if what.endswith("wait_seconds") and subject.endswith(f"/{OTHER}")
    ]
    assert elsewhere and max(elsewhere) < 0.5 * longest


def long_ones(reading: Reading) -> int:
    bins = reading.text.rpartition(": ")[2].split()
    return sum(int(many) for least, _, many in (it.partition(":") for it in bins) if int(least) >= 65536)


def packets() -> None:
    """Each raises NET_RX on the core that sends it. One start in 16 is timed, and ticks may be too few for that."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it,
    ):
        sink.bind(("127.0.0.1", 0))
        for _ in range(1_000):
            it.sendto(b"", sink.getsockname())


@pytest.mark.kernel
@ROOT
def test_beyond_the_budget_the_programs_rest_and_then_go_on() -> None:
    with CoreTimes(range(os.cpu_count() or 1), ["x"] * 10, softirq_events.PROGRAMS, most=1e-6) as times:
        packets()
        first = times.read()
        assert first is not None and first.times and times.read() is None, "detached for a long time"
        time.sleep(REST)
        times._turns.rest_until = 1e-9  # that time is over
        assert times.read() is None, "attached just now"
        packets()
        again = times.read()
    # What was raised before the rest is not taken for a wait as long as the rest.
    assert again is not None and again.times and all(it.worst < REST for it in again.times)


@pytest.mark.kernel
@ROOT
def test_nothing_stays_in_the_kernel_when_the_process_is_killed() -> None:
    wait = f"{SET_UP}\nwith softirq_events.watch(Host()): print('on', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "on\n"
    ids = {
        int(line.partition(":")[2])
        for path in Path(f"/proc/{child.pid}/fdinfo").iterdir()
        for line in path.read_text().splitlines()
        if line.startswith("prog_id:")
    }
    assert len(ids) == 3 and all(map(loaded, ids))
    child.send_signal(signal.SIGKILL)
    child.communicate()
    until(lambda: not any(map(loaded, ids)))  # programs are freed after a grace period


def loaded(number: int) -> bool:
    try:
        os.close(bpf._call(13, number.to_bytes(4, "little") + bytes(8)))  # BPF_PROG_GET_FD_BY_ID
    except FileNotFoundError:
        return False
    return True


@ROOT
def test_without_rights_it_is_blind_with_what_is_missing() -> None:
    # tracefs is root's alone, so it is read before: the kernel's own refusal is what is asked for.
    ask = "bpf.PerCpuArray(64, 'test', 2)"
    assert "needs CAP_BPF and CAP_PERFMON, or root" in why_not("os.setresuid(65534, 65534, 65534)", ask)
    told = why_not(f"{SET_UP}\nos.setresuid(65534, 65534, 65534)", "softirq_events.watch(Host()).__enter__()")
    assert "/sys/kernel/tracing" in told


@pytest.mark.kernel
@pytest.mark.beside
@ROOT
def test_a_recording_keeps_the_histograms_or_why_there_are_none(tmp_path: Path, zombiescope: Run) -> None:
    for name, flags in (("on", ()), ("off", ("--no-bpf",))):
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:  # an idle core has hardly any
            done = zombiescope("record", str(tmp_path / name), "--for", "5s", "--hz", "0", *flags)
            busy.kill()
        assert done.returncode == 0, done.stderr
    kept = opened(str(tmp_path / "on")).timeline()
    seen = [kept.series("softirq_wait_seconds", it) for it in kept.subjects("softirq_wait_seconds", "softirq")]
    assert seen and all("from µs: " in it.texts[0] for it in seen)
    looks = opened(str(tmp_path / "off")).timeline().looks("softirq_wait_seconds")
    assert looks.latest.value == 0 and looks.latest.text == "switched off by --no-bpf"
