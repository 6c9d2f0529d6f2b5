"""A long recording: twelve hours on disk, opened, searched and examined in seconds."""

from __future__ import annotations

import json
import os
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

HOURS = 12
BUSY = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: sum(range(1000)); os.stat('/')"


def ratios() -> Iterator[tuple[str, float, float, str]]:
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


def _record(folder: str, hz: int, seconds: float) -> None:
    argv = command("record", folder, "--hz", str(hz), "--for", f"{seconds}s", "--budget", "0")
    subprocess.run(argv, stderr=subprocess.DEVNULL, check=True)
    if not opened(folder).timeline().series("samples_total"):
        raise UserError("no stacks can be sampled here")


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
