"""The files that a reading and a sample pass, as docs/how-it-works.md draws them: every call of a real look is traced.

A file is on the way if the thing itself goes into its code and comes out: as an argument, a result or what is yielded.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import CANNOT

import zombiescope
from zombiescope.core import Host, Reading
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Series
from zombiescope.kernel.columns import Column
from zombiescope.profile.tree import planted
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.heads import DiskThread, Heads
from zombiescope.recorder.loop import Loop
from zombiescope.recorder.perf_records import Chains, Parsed
from zombiescope.recorder.replay import opened
from zombiescope.recorder.rows import Rows
from zombiescope.recorder.settle_segment import main
from zombiescope.recorder.short import record

PACKAGE = str(Path(zombiescope.__file__).parent) + "/"
DRAWN = Path(__file__).parents[2] / "docs" / "how-it-works.md"
WORD, WHAT = "pgfault", "vmstat_pgfault_total"
END = {"core/timeline"}  # where a reading arrives
Carries = Callable[[object], bool]


def drawn(of: str) -> tuple[list[str], set[str]]:
    """The files of one way in their order, and those that are asked on it."""
    lines = [it.strip() for it in DRAWN.read_text().splitlines() if it.startswith("     ")]
    begin = next(place for place, line in enumerate(lines) if line.startswith(f"{of}: "))
    end = next(place for place, line in enumerate(lines) if place > begin and line.startswith("asked: "))
    way, asked = " ".join(lines[begin:end]), lines[end]
    return re.findall(r"[a-z]+/[a-z_]+", way), set(re.findall(r"[a-z]+/[a-z_]+", asked))


class Trace:
    """From which file to which a thing was handed."""

    def __init__(self, carries: Carries) -> None:
        self._carries = carries
        self.handed: set[tuple[str, str]] = set()

    @contextmanager
    def running(self) -> Iterator[None]:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, result: object) -> None:
        if event not in ("call", "return") or not (own := _file(frame)):
            return
        caller = frame.f_back
        while caller is not None and not _file(caller):
            caller = caller.f_back
        other = _file(caller) if caller is not None else ""
        if own == other:
            return
        if event == "return":
            if result is not None and self._carries(result):
                self.handed.add((own, other))
            return
        code = frame.f_code
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(self._carries(frame.f_locals.get(name)) for name in named if name != "self"):
            self.handed.add((other, own))

    @property
    def passed(self) -> set[str]:
        """Where it went in and came out; it comes from the kernel into the first."""
        into, out = {it for _, it in self.handed}, {it for it, _ in self.handed}
        return (into & out) - {""}

    @property
    def touched(self) -> set[str]:
        return {it for both in self.handed for it in both}


def _file(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    return name.removeprefix(PACKAGE).removesuffix(".py") if name.startswith(PACKAGE) else ""


def has_reading(it: Any, depth: int = 4) -> bool:
    """One reading of WHAT, or what it is made of."""
    if isinstance(it, bytes | memoryview):
        return f"{WORD} ".encode() in bytes(it)
    if isinstance(it, str):
        return f"{WORD} " in it
    if isinstance(it, Reading | Series | Column):
        return it.what == WHAT
    if isinstance(it, Rows):
        return WHAT in it.what.words
    if isinstance(it, pa.Table | pa.RecordBatch):
        return "what" in it.schema.names and WHAT in it["what"].to_pylist()
    if isinstance(it, dict):
        return WORD in it or WHAT in it.get("what", ()) or (depth > 0 and any(has_reading(v, 0) for v in it.values()))
    return isinstance(it, list | tuple) and depth > 0 and any(has_reading(each, depth - 1) for each in it)


def sample_of(pid: int) -> Carries:
    """A sample of one process with its stack. One column of samples alone, such as all pids, is none."""
    ids, first = struct.pack("<ii", pid, pid), struct.pack("<i", pid)
    named = re.compile(re.escape(struct.pack("<I", 3)) + b"...." + re.escape(ids), re.DOTALL)  # its name, when it began

    def carries(it: Any, depth: int = 3) -> bool:
        if isinstance(it, bytes | memoryview):
            # A second of two cores is less than 2 MB; what is larger is the text of kallsyms, and files with symbols.
            if len(it) >= 2 << 20:
                return False
            whole = bytes(it)
            return whole.count(ids) > 2 * len(named.findall(whole)) or (whole.startswith(first) and len(it) % 8 == 4)
        if isinstance(it, np.ndarray):
            return it.dtype == np.uint64 and bool((it == (pid << 32) + pid).any())
        if isinstance(it, Samples):
            return any(who.pid == pid for who in it.whos)
        if isinstance(it, dict):
            return {"pid", "stack"} <= it.keys() and bool((it["pid"] == pid).any())
        if isinstance(it, Parsed):
            return carries(it.chains)
        if isinstance(it, Chains):
            return bool((it.pids == pid).any())
        return isinstance(it, list | tuple) and depth > 0 and any(carries(each, depth - 1) for each in it)

    return carries


def test_a_reading_passes_the_files_that_are_drawn() -> None:
    way, asked = drawn("reading")
    trace = Trace(has_reading)
    with trace.running():
        found = record(Host(), 0.3, only=("vmstat",)).timeline()
    assert len(found.series(WHAT)) >= 1
    assert trace.passed - END - asked == set(way), sorted(trace.handed)
    assert len(way) <= 6 and asked <= trace.passed
    assert [it.partition("/")[0] for it in way] == ["kernel", *["recorder"] * 3, "probes", "recorder"]


def test_by_the_disk_it_passes_these_too(tmp_path: Path) -> None:
    way, asked = drawn("by the disk")
    trace = Trace(has_reading)
    with trace.running():
        disk, folder = DiskThread(), str(tmp_path / "rec")
        sink = HeadSink(disk.write)
        with Loop(Host(), sink, ("vmstat",)) as loop:
            meta = {"hz": 0, "gives": loop.gives, "events": list(loop.events)}
            disk.start(Heads(folder, meta, hours=1, most_bytes=1 << 30, settles=False))
            loop.look_at_all()
        sink.flush()
        disk.close()
        (head,) = Path(folder).glob("*/head")
        assert main([folder, head.parent.name]) == 0
        found = opened(folder).timeline()
    assert len(found.series(WHAT)) == 1
    assert ("recorder/head", "recorder/heads") in trace.handed, "from there it goes to the disk"
    assert trace.passed - END - asked == set(way) - {"recorder/heads"}, sorted(trace.handed)


@pytest.mark.kernel
@pytest.mark.beside
def test_a_sample_passes_the_files_that_are_drawn() -> None:
    way, asked = drawn("sample")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    trace = Trace(sample_of(busy.pid))
    try:
        time.sleep(0.1)
        with trace.running():
            look = record(Host(), 0.7, only=(), hz=99)
            if not look.meta["hz"]:
                pytest.skip(CANNOT + "sample")
            samples = look.timeline().samples()
            planted(samples)
    finally:
        busy.kill()
        busy.wait()
    assert any(who.pid == busy.pid for who in samples.whos)
    assert trace.passed - asked <= set(way), sorted(trace.handed)
    # What makes a number of a stack, and a name of the number, hands on no more than that.
    assert set(way) - trace.touched <= {"recorder/distinct_stacks"}
    assert len(way) <= 10
    rooms = [it.partition("/")[0] for it in way]
    assert list(dict.fromkeys(rooms)) == ["kernel", "recorder", "core", "profile"] and rooms == sorted(
        rooms, key=["kernel", "recorder", "core", "profile"].index
    )
