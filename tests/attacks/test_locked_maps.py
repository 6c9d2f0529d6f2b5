"""A process that holds the lock of its own memory map for ever: whoever reads of it waits a moment, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.attacks.stuck_process import all_stuck, stuck
from tests.conftest import COMMAND
from tests.naming.programs import LOADER, compiled, library, name_at, needs_root, running
from tests.waiting import until

from zombiescope.audit import running as processes
from zombiescope.core import Host
from zombiescope.kernel.aside import MOST
from zombiescope.naming.mappings import LOCKED, Mappings
from zombiescope.naming.namer import Namer

pytestmark = pytest.mark.beside

HANGS = 60.0  # seconds
# Reads the mappings of a process, and ends.
READS = """
import sys, time
from zombiescope.naming.mappings import Mappings
found, pid = Mappings(), int(sys.argv[1])
for _ in range(3):
    found.see([pid], time.monotonic_ns())
print(found.unread.get(pid, "read"))
"""
WAITS = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("here"); fflush(stdout); for (;;) sleep(1); }
"""


def ended(*argv: str) -> subprocess.CompletedProcess[str]:
    """What ended by itself; what does not is killed."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=HANGS, check=False)


def test_a_diagnosis_beside_a_process_with_a_locked_memory_map(tmp_path: Path) -> None:
    """A busy process holds its mmap_lock on a dead FUSE file: its /proc/PID/maps is never answered."""
    with stuck(tmp_path) as pid:
        done = ended(str(COMMAND), "diagnose", "--seconds", "3", "--hz", "99")
    assert done.returncode in (0, 1, 3), done.stderr
    assert f"trouble: functions have no names: /proc/{pid}/maps gave {LOCKED}" in done.stderr


def test_a_reader_of_locked_maps_ends_by_itself(tmp_path: Path) -> None:
    """The thread that waits for the lock is left behind, and does not keep its process from ending."""
    with stuck(tmp_path) as pid:
        done = ended(sys.executable, "-c", READS, str(pid))
    assert (done.returncode, done.stdout.strip()) == (0, LOCKED)


def test_locked_maps_are_asked_for_once_and_others_are_read(tmp_path: Path) -> None:
    """The same, in a process that goes on: it waits once."""
    found = Mappings()
    with stuck(tmp_path) as pid:
        found.see([pid, os.getpid()], time.monotonic_ns())
        assert found.unread == {pid: LOCKED} and found.knows(pid) and found.knows(os.getpid())
        waiting = found.aside.waiting
        found.see([pid], time.monotonic_ns())
        assert found.aside.waiting == waiting == [(pid,)]


def test_three_processes_with_locked_memory_maps(tmp_path: Path) -> None:
    """More threads than two are stuck, and what is seen after that has names."""
    found = Mappings()
    namer, path = Namer(mappings=found), library("walk_of_a_job", tmp_path / "libwalk.so")
    with (
        all_stuck(tmp_path, many=3) as pids,
        running(compiled(LOADER, tmp_path / "loader"), path, "walk_of_a_job") as (process, (address,)),
    ):
        for pid in pids:
            assert name_at(pid, 0x1000, namer) == "[unknown]"
        assert name_at(process.pid, int(address, 16), namer) == "walk_of_a_job"
        assert found.aside.why_full == ""


def test_as_many_locked_memory_maps_as_may_be(tmp_path: Path) -> None:
    """At the bound no more is begun; it is said, and a process that is seen then is not said to have nothing mapped."""
    found = Mappings()
    with all_stuck(tmp_path, many=MOST) as pids:
        found.see([*pids, os.getpid()], time.monotonic_ns())
        why = f"{MOST} reads have not returned: no more are begun until one does"
        assert found.aside.why_full == why and found.unread[os.getpid()] == why
        assert not found.knows(os.getpid())
    until(lambda: not found.aside.busy)
    found.see([os.getpid()], time.monotonic_ns())
    assert found.knows(os.getpid()) and os.getpid() not in found.unread


def test_a_command_line_that_never_comes(tmp_path: Path) -> None:
    """A process called raylet, whose command line is asked for, holds its mmap_lock."""
    needs_root()
    (tmp_path / "well").mkdir()
    well = compiled(WAITS, tmp_path / "well" / "raylet")
    with stuck(tmp_path, "raylet") as pid, running(well) as (other, _):
        both = {it for it, _ in processes.running(Host(), ("raylet",))}
        assert {pid, other.pid} <= both
        words = {it: processes.words_of(Host(), it) for it in sorted(both)}
        assert words[pid] == [] and words[other.pid] == [str(well)]
        (said,) = processes.silent()
        assert said.source == f"/proc/{pid}/cmdline" and "its memory map is locked" in said.why
        assert processes.words_of(Host(), pid) == [], "and it is not asked again"
        assert len(list(processes.silent())) == 1
