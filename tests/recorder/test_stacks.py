"""Stacks in a recording: known programs are named where they spin, kernel side and user side, on the right clock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import CANNOT, COMMAND, PROJECT

from zombiescope.core import Host, Span
from zombiescope.recorder.capture import Capture
from zombiescope.recorder.replay import Recording, opened

pytestmark = pytest.mark.kernel
CPU = max(os.sched_getaffinity(0))
HZ = 99
WRITER = """
import os, sys, time
time.sleep(3)
print(time.time())
os.write(os.open("/dev/kmsg", os.O_WRONLY), sys.argv[1].encode() + b"\\n")
"""
PROGRAM = """
#include <unistd.h>
#include <fcntl.h>
volatile unsigned long turns;
static char page[1 << 20];
__attribute__((noinline)) void spin_here(void) { for (unsigned long i = 0; i < 50000000; i++) turns++; }
__attribute__((noinline)) void ask_the_kernel(int zero) {
  for (int i = 0; i < 2000; i++) read(zero, page, sizeof page);
}
int main(int count, char **words) {
  int zero = open("/dev/zero", O_RDONLY);
  for (;;) { if (count > 1) ask_the_kernel(zero); else spin_here(); }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip(CANNOT + "compile the program to look for: no gcc")
    folder = tmp_path_factory.mktemp("program")
    (folder / "known.c").write_text(PROGRAM)
    # Frame pointers, also in leaves, so that the kernel can walk the program's part of the stack.
    kept = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
    subprocess.run(["gcc", "-O1", *kept, "-o", folder / "known", folder / "known.c"], check=True)
    return str(folder / "known")


@contextmanager
def spinning(*argv: str, cpu: int = CPU) -> Iterator[int]:
    process = subprocess.Popen(["taskset", "-c", str(cpu), *argv])
    try:
        time.sleep(0.3)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def fly(folder: Path, seconds: float, hz: int = 199) -> Recording:
    with Capture(Host(), str(folder), hours=1, most_bytes=10**9, hz=hz, user=True, budget=1.0) as capture:
        if capture._rings is None or not capture._rings.hz:
            pytest.skip(CANNOT + "; ".join(capture.blind))
        capture.run(seconds)
    return opened(str(folder))


def stacks_of(recording: Recording, pid: int) -> Counter[tuple[str, ...]]:
    frames = {row["stack"]: tuple(row["frames"]) for row in recording.table("stacks").to_pylist()}
    return Counter(frames[row["stack"]] for row in recording.table("samples").to_pylist() if row["pid"] == pid)


@dataclass(frozen=True)
class Flown:
    """One recording for all that can be asked of it: on one core a program spins, on another it asks the kernel."""

    recording: Recording
    spins: int  # the process
    asks: int
    marker: str  # written to the kernel's log
    written: float


@pytest.fixture(scope="module")
def flown(program: str, tmp_path_factory: pytest.TempPathFactory) -> Flown:
    marker = f"zombiescope-test-{os.getpid()}"
    with (
        spinning(program) as spins,
        spinning(program, "kernel", cpu=min(os.sched_getaffinity(0))) as asks,
        subprocess.Popen([sys.executable, "-c", WRITER, marker], stdout=subprocess.PIPE, text=True) as telling,
    ):
        recording = fly(tmp_path_factory.mktemp("flown"), 6, hz=HZ)
        written = float(telling.communicate()[0])
    return Flown(recording, spins, asks, marker, written)


def test_a_program_is_named_where_it_spins(flown: Flown) -> None:
    seen = stacks_of(flown.recording, flown.spins)
    assert seen.total() > 100
    assert sum(times for stack, times in seen.items() if "spin_here" in stack) > 0.95 * seen.total()


def test_the_kernel_s_part_is_named_and_follows_the_program_s(flown: Flown) -> None:
    seen = stacks_of(flown.recording, flown.asks)
    reading = [times for stack, times in seen.items() if "main" in stack and any("read_zero" in it for it in stack)]
    assert sum(reading) > 0.9 * seen.total() > 0
    rows = flown.recording.table("stacks").to_pylist()
    deep = next(it for it in rows if "main" in it["frames"] and any("read_zero" in frame for frame in it["frames"]))
    first_kernel = len(deep["frames"]) - deep["kernel_frames"]
    assert deep["frames"].index("main") < first_kernel <= [("read_zero" in it) for it in deep["frames"]].index(True)


def test_samples_agree_with_the_time_the_core_was_busy(flown: Flown) -> None:
    timeline = flown.recording.timeline()
    modes = ("user", "system", "nice", "softirq", "irq")
    counters = [timeline.series(f"cpu_{mode}_seconds_total", f"cpu:{CPU}") for mode in modes]
    # From look to look: between two, nobody knows how far the counters were.
    looks = timeline.looks("cpu_user_seconds_total").at
    edges = looks[[2, -3]]
    busy = float(sum(np.diff(it.sampled(edges))[0] for it in counters))
    within = flown.recording.table("samples", Span(float(edges[0]), float(edges[1])))
    samples = int(np.count_nonzero(within["cpu"].to_numpy() == CPU))
    assert samples == pytest.approx(HZ * busy, rel=0.03)
    assert timeline.series("samples_lost_total").latest.value == 0


def test_samples_and_the_kernel_s_log_share_a_clock(flown: Flown) -> None:
    lines = flown.recording.timeline().series("kernel_log")
    said = [lines.reading(place) for place in range(len(lines)) if flown.marker in lines.reading(place).text]
    assert len(said) == 1 and abs(said[0].at - flown.written) < 0.05
    nearest = min(abs(row["at"] / 1e9 - said[0].at) for row in flown.recording.table("samples").to_pylist())
    assert nearest < 2 / HZ, "there is a sample within a period of it"


@pytest.mark.beside
def test_a_segment_holds_every_stack_it_speaks_of(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zombiescope.recorder.capture.SEGMENT_SECONDS", 0.75)
    with spinning(program):
        recording = fly(tmp_path, 5)
    assert len(recording.segments) >= 3
    for segment in recording.segments:
        alone = Recording(recording.folder, recording.meta, [segment])
        spoken = set(alone.table("samples")["stack"].to_pylist())
        assert spoken and spoken <= set(alone.table("stacks")["stack"].to_pylist())
    ids = {row["stack"]: row["frames"] for row in recording.table("stacks").to_pylist()}
    assert len(ids) < recording.table("stacks").num_rows, "the same stack has the same id in every segment"


@pytest.mark.beside
def test_the_documented_query_reads_what_is_settled(program: str, tmp_path: Path) -> None:
    """In a process of its own, as a user would; DuckDB knows nothing of us."""
    text = (PROJECT / "docs" / "recording.md").read_text()
    (query,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with spinning(program):
        subprocess.run([COMMAND, "record", "rec", "--hz", "199", "--for", "4s"], cwd=tmp_path, check=True)
        done = subprocess.run([sys.executable, "-c", query], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows and any(row[:2] == ["known", "spin_here"] for row in rows)
