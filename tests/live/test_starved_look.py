"""A look on a node where a neighbour with many times our weight keeps every core busy: it ends in time."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND
from tests.waiting import until

pytestmark = [pytest.mark.kernel, pytest.mark.long]
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
BUSY = "echo $$ > {}/cgroup.procs; while :; do :; done"


@contextmanager
def neighbour(shares: int) -> Iterator[None]:
    """Two busy loops a core, in a cgroup with so many cpu.shares (of v2: the largest weight there is)."""
    root, file, weight = (V1, "cpu.shares", shares) if (V1 / "cpu.shares").exists() else (V2, "cpu.weight", 10_000)
    if any(not it.endswith(":/") for it in Path("/proc/self/cgroup").read_text().split() if ":cpu:" in it):
        pytest.skip(f"{CANNOT}be in the root cgroup, where a nice value counts against another cgroup")
    folder = root / f"zombiescope-neighbour-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / file).write_text(str(weight))
    except OSError as error:
        pytest.skip(f"{CANNOT}make a cgroup with a weight: {error.strerror}")
    loops = []
    try:
        for _ in range(2 * (os.cpu_count() or 1)):
            loops.append(subprocess.Popen(["sh", "-c", BUSY.format(folder)]))
        time.sleep(0.5)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


@pytest.mark.parametrize("shares", [8_192, 65_536])
def test_it_ends_in_time_loses_nothing_and_gives_its_priority_back(shares: int) -> None:
    group = Path("/proc/self/autogroup")
    before = group.read_text() if group.exists() else ""
    with neighbour(shares):
        started = time.monotonic()
        argv = [str(COMMAND), "diagnose", "--seconds", "8", "--format", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        took = time.monotonic() - started
    assert done.returncode in (0, 1, 3), done.stderr
    case = json.loads(done.stdout)
    assert took < 20 and case["span"]["end"] - case["span"]["start"] > 7.5, took
    assert not before or group.read_text() == before, "the session has the priority that it had"
    if shares == 65_536:
        found = [it["subject"] for it in case["findings"] if it["sign"] == "starved_thread"]
        assert any("python" in it or "zombiescope" in it for it in found), "that it was starved itself is evidence"
