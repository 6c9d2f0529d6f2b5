"""The flight recorder: its price beside perf's, nothing lost at 999 Hz, twelve hours opened and examined in seconds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from bench._commands import command
from zombiescope.core import Span, UserError
from zombiescope.diagnosis.examine import examine
from zombiescope.recorder.layout import KINDS, file_name, segment_name
from zombiescope.recorder.replay import opened
from zombiescope.recorder.schemas import SCHEMAS, WHOLE

SECONDS = 40.0
SETTLE = 8.0  # starting up, reading symbols and naming the first stacks is paid once
HOURS = 12
BUSY = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: sum(range(1000)); os.stat('/')"


def ratios() -> Iterator[tuple[str, float, float, str]]:
    with tempfile.TemporaryDirectory() as folder, _busy():
        for hz, limit in ((99, 0.01), (999, 0.025)):
            share, memory, lost = _record(f"{folder}/{hz}", hz)
            detail = f"{share:.2%} of one core, {memory / 1e6:.0f} MB, {lost} lost"
            yield f"share of one core at {hz} Hz against {limit:.1%}", share / limit, 1.0, detail
            yield f"memory at {hz} Hz against 120 MB", memory / 120e6, 1.0, detail
            yield f"samples lost at {hz} Hz", float(lost), 0.0, detail
            if hz == 99 and shutil.which("perf"):
                perf = _perf(folder)
                yield (
                    "recorder, with all probes, against perf record, which only writes",
                    share / perf,
                    3.0,
                    f"{share:.2%} against {perf:.2%}",
                )
    with tempfile.TemporaryDirectory() as folder:
        yield from _twelve_hours(folder)


@contextmanager
def _busy() -> Iterator[None]:
    cores = sorted(os.sched_getaffinity(0))
    loads = [subprocess.Popen([sys.executable, "-c", BUSY, str(core)]) for core in cores]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


def _record(folder: str, hz: int, seconds: float = SECONDS) -> tuple[float, float, int]:
    """Share of one core once it has settled, largest resident memory then, samples lost."""
    process = subprocess.Popen(
        command("record", folder, "--hz", str(hz), "--for", f"{seconds}s"), stderr=subprocess.DEVNULL
    )
    time.sleep(SETTLE)
    before, started, resident = _cpu(process.pid), time.monotonic(), 0
    while time.monotonic() < started + seconds - SETTLE - 2:
        time.sleep(1)
        resident = max(resident, _resident(process.pid))
    share = (_cpu(process.pid) - before) / (time.monotonic() - started)
    process.wait()
    lost = opened(folder).timeline().series("samples_lost_total")
    if not len(lost):
        raise UserError("no stacks can be sampled here")
    return share, resident, int(lost.latest.value)


def _perf(folder: str) -> float:
    argv = ["perf", "record", "-q", "-F", "99", "-a", "-g", "--switch-output=10s", "-o", f"{folder}/perf.data"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(SETTLE)
    before, started = _cpu(process.pid), time.monotonic()
    time.sleep(SECONDS - SETTLE - 2)
    share = (_cpu(process.pid) - before) / (time.monotonic() - started)
    process.send_signal(signal.SIGINT)
    process.wait()
    return share


def _cpu(pid: int) -> float:
    """CPU seconds so far, to the nanosecond (the tick of /proc/PID/stat is too coarse for a hundredth of a core)."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _twelve_hours(folder: str) -> Iterator[tuple[str, float, float, str]]:
    """A real recording, shifted in time until it is twelve hours long."""
    with _busy():
        _record(f"{folder}/real", 99, seconds=115.0)
    real = opened(f"{folder}/real")
    length = 120.0
    tables = {kind: real.table(kind) for kind in KINDS}
    os.mkdir(f"{folder}/long")
    with open(f"{folder}/long/meta.json", "w") as file:
        json.dump(real.meta, file)
    for number in range(int(HOURS * 3600 / length)):
        segment = f"{folder}/long/{segment_name(real.span.start + number * length)}"
        os.mkdir(segment)
        for kind, table in tables.items():
            if table.num_rows:
                _shifted(table, kind, number * length, f"{segment}/{file_name(kind, head=False)}")
    size = sum(
        os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(f"{folder}/long") for name in names
    )
    day = size / HOURS * 24
    yield (
        "twelve hours on disk against 2 GB",
        size / 2e9,
        1.0,
        f"{size / 1e6:.0f} MB; {day / 1e6:.0f} MB a day of this node",
    )
    started = time.process_time()
    long = opened(f"{folder}/long")
    span = long.span
    yield "opening twelve hours against 2 s", (time.process_time() - started) / 2, 1.0, f"{span.seconds / 3600:.1f} h"
    started = time.process_time()
    second = Span(span.start + 7 * 3600, span.start + 7 * 3600 + 1)
    found = long.table("samples", second).num_rows
    yield (
        "finding a second in it against 2 s",
        (time.process_time() - started) / 2,
        1.0,
        f"{found} samples in that second",
    )
    started = time.process_time()
    case = examine(long.timeline(Span(span.start + 5 * 3600, span.start + 6 * 3600)))
    took = time.process_time() - started
    yield "examining one hour of it against 2 s", took / 2, 1.0, f"{took:.2f} s, {len(case.verdicts)} signs"


def _shifted(table: pa.Table, kind: str, seconds: float, path: str) -> None:
    if "at" in table.column_names:
        at = pa.array(table["at"].to_numpy() + int(seconds * 1e9))
        table = table.set_column(0, "at", at)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, SCHEMAS[kind], options=WHOLE) as stream:
        stream.write_table(table.combine_chunks())
