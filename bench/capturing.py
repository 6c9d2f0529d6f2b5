"""What it costs to leave the recorder running, beside `perf record` in the same run: quiet, and among short processes.

perf only writes what its rings hold; the recorder also reads every probe, and its settle children name the stacks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from bench._commands import command, cpu_of
from zombiescope.core import UserError
from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained, ring_size
from zombiescope.probes import proc_stat
from zombiescope.recorder.budget import default_share
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.heads import Heads
from zombiescope.recorder.replay import opened
from zombiescope.recorder.sampling import Fetched

WARM = 15.0  # seconds: starting up and the first sample of every probe are paid once
SECONDS = float(os.environ.get("ZOMBIESCOPE_SECONDS", "620"))  # all heads of ten minutes, settled; 60: capture alone
CHURN = "while :; do /bin/true; /bin/true; /bin/true; /bin/true; sleep 0.01; done"
PERF = ("perf", "record", "-q", "-F", "99", "-a", "-g", "--switch-output=10s", "-o")


def ratios() -> Iterator[tuple[str, float, float, str]]:
    if shutil.which("perf") is None:
        raise UserError("perf is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for name, around, both, most in (
            ("quiet", nullcontext, 0.8, 0.005),
            ("among short processes", _churn, 1.2, 0.01),
        ):
            with around():
                capture, settle, perf, memory, lost, forks = _beside(f"{folder}/{name}", 99, SECONDS)
            detail = (
                f"{capture:.2%} + {settle:.2%} of one core, perf {perf:.2%}, {memory / 1e6:.0f} MB, {lost} lost, "
                f"{forks:.0f} new processes/s"
            )
            yield f"{name}: capture against perf record", capture / perf, 0.6, detail
            yield f"{name}: capture and settle against perf record", (capture + settle) / perf, both, detail
            yield f"{name}: capture and settle against {most:.1%} of a core", (capture + settle) / most, 1.0, detail
            yield f"{name}: memory of capture, without rings, against 25 MB", memory / 25e6, 1.0, detail
            yield f"{name}: samples lost", float(lost), 0.0, detail
        capture, settle, perf, memory, lost, _ = _beside(f"{folder}/999", 999, SECONDS)
        detail = f"{capture:.2%} + {settle:.2%} of one core, {memory / 1e6:.0f} MB; perf at 99 Hz {perf:.2%}"
        yield "999 Hz: capture and settle against the budget of 1 %", (capture + settle) / 0.01, 1.2, detail
        yield "999 Hz: samples lost", float(lost), 0.0, detail
        for cores in (96, 192):
            share, memory = _many_cores(f"{folder}/{cores}", cores)
            detail = f"{share:.2%} of one core, {share / cores * 1e6:.0f} µs a core, {memory / 1e6:.0f} MB rings"
            what = f"{cores} cores at 49 Hz, generated: what capture adds, against half of the budget"
            yield what, share / (0.5 * default_share(cores)), 1.0, detail


def _many_cores(folder: str, cores: int, seconds: int = 30) -> tuple[float, int]:
    """Rings and /proc/stat of so many cores, made up, through capture's own sink and heads onto the disk.

    What the kernel takes to print its files is not in it, nor what the rings cost that are really drained.
    """
    event = Event(name="cpu-clock", hz=49, kernel=True, user=True, cgroup=True)
    heads = Heads(folder, {}, hours=1, most_bytes=10**10, settles=False)
    sink = HeadSink(lambda pieces: heads.write(0, pieces, time.time()))
    # Stacks of 35 addresses, and half as much again of mappings and names.
    rings = [[Drained(cpu, os.urandom(49 * 350 * 3 // 2), 0, None) for cpu in range(cores)] for _ in range(3)]
    row = "{} 301854 612 111922 {} 3552 2 3944 0 44 36\n"
    stats = ["".join(row.format(f"cpu{cpu}", 8_979_004 + tick) for cpu in range(cores)).encode() for tick in range(20)]
    began = time.process_time()
    for second in range(seconds):
        sink.drained(event, rings[second % 3])
        for tick in range(round(1 / proc_stat.EVERY)):  # as often as where a core is full in the kernel
            sink.fetched("proc_stat", Fetched(time.monotonic_ns(), stats[(4 * second + tick) % 20], 0.0))
        sink.flush()
    share = (time.process_time() - began) / seconds
    heads.close()
    return share, ring_size(49, cores) * cores


@contextmanager
def _churn() -> Iterator[None]:
    process = subprocess.Popen(["sh", "-c", CHURN])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _beside(folder: str, hz: int, seconds: float) -> tuple[float, float, float, int, int, float]:
    """Shares of one core of capture, settle and perf; capture's memory; samples lost; new processes a second."""
    os.makedirs(folder)
    argv = command("record", f"{folder}/rec", "--hz", str(hz), "--for", f"{WARM + seconds + 5}s")
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    perf = subprocess.Popen([*PERF, f"{folder}/perf.data"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM)
        began, before = time.monotonic(), (cpu_of(process.pid), _children(process.pid), cpu_of(perf.pid), _forks())
        time.sleep(seconds)
        passed = time.monotonic() - began
        after = (cpu_of(process.pid), _children(process.pid), cpu_of(perf.pid), _forks())
        memory = _anonymous(process.pid)
        process.wait()
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()
        process.kill()
    capture, settle, other, forks = ((now - then) / passed for now, then in zip(after, before, strict=True))
    lost = opened(f"{folder}/rec").timeline().series("samples_lost_total")
    return capture, settle, other, memory, int(lost.latest.value) if len(lost) else -1, forks


def _children(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _forks() -> int:
    with open("/proc/stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("processes "))


def _anonymous(pid: int) -> int:
    """Resident memory, without the rings, which the kernel owns: they are given in bytes by `info`."""
    with open(f"/proc/{pid}/status") as file:
        said = dict(line.split(":", 1) for line in file)
    return 1024 * (int(said["RssAnon"].split()[0]) + int(said["RssFile"].split()[0]))
