"""Who began before a recording and ended before it was settled has its name all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import until

from zombiescope.core import Host
from zombiescope.kernel.perf_changes import Comm
from zombiescope.recorder import there_before
from zombiescope.recorder.perf_records import parse
from zombiescope.recorder.short import record

SPINS = """import ctypes, sys, threading, time
def spin(name, end):
    ctypes.CDLL(None).prctl(15, name)
    while time.monotonic() < end: pass
end = time.monotonic() + 3
other = threading.Thread(target=spin, args=(b"other one", end))
other.start()
spin(b"first(1) x", end)
"""


def test_the_names_of_all_threads_are_records_as_the_kernel_writes_them() -> None:
    said = parse([there_before.names(Host(), 77)], cgroup=True)
    assert not said.damage and not len(said.pid)
    found = {(it.pid, it.tid): it for it in said.records if isinstance(it, Comm)}
    own = found[os.getpid(), os.getpid()]
    assert own.comm == Path("/proc/self/comm").read_text().rstrip("\n") and own.time_ns == 77 and not own.execed
    assert len(found) == len(said.records) >= len(list(Path("/proc/self/task").iterdir()))


def test_of_very_many_threads_the_first_of_each_process_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there_before, "MOST", 3)
    said = parse([there_before.names(Host(), 1)], cgroup=True)
    assert len(said.records) == 3 and all(isinstance(it, Comm) and it.pid == it.tid for it in said.records)


@pytest.mark.kernel
def test_who_ended_before_the_head_was_settled_has_a_name() -> None:
    process = subprocess.Popen([sys.executable, "-c", SPINS])
    try:
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "first(1) x\n")
        look = record(Host(), 2.0, hz=99)
    finally:
        process.wait()
    time.sleep(0.01)
    samples = look.timeline().samples()
    own = {it.comm for it in samples.whos if it.pid == process.pid}
    assert own == {"first(1) x", "other one"}
    unnamed = [place for place, it in enumerate(samples.whos) if it.comm == "?"]
    assert np.isin(samples.who, unnamed).mean() <= 0.01
