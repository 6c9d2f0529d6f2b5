"""Threads that really wait, and one that really has real-time priority."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.test_process_waits import values
from tests.waiting import until, waits

from zombiescope.core import Host
from zombiescope.kernel.held_files import HeldFiles
from zombiescope.probes import _process_threads, processes
from zombiescope.probes._process_stat import parse


@contextmanager
def vforked(fifo: Path) -> Iterator[int]:
    """A process that the kernel keeps blocked: its child shares its memory, and waits to open a FIFO."""
    os.mkfifo(fifo)
    pid = os.fork()
    if not pid:
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 3, str(fifo), os.O_RDONLY, 0)])
        os._exit(0)
    try:
        yield pid
    finally:
        os.close(os.open(fifo, os.O_RDWR))
        os.waitpid(pid, 0)


@pytest.mark.kernel
def test_a_process_that_is_really_blocked(tmp_path: Path) -> None:
    with processes.watch(Host()) as look, vforked(tmp_path / "fifo") as pid:
        until(lambda: waits(pid))
        list(look())
        time.sleep(0.5)
        told = {
            subject: value
            for subject, value in values(list(look()), "process_blocked_seconds").items()
            if subject.endswith(f"[{pid}]")
        }
    ((seconds, where),) = told.values()
    assert seconds >= 0.5 and where


REALTIME_THREAD = """
import os, threading, time
def hog():
    os.sched_setscheduler(threading.get_native_id(), os.SCHED_RR, os.sched_param(3))
    end = time.monotonic() + 60
    print(threading.get_native_id(), flush=True)
    while time.monotonic() < end:
        sum(range(1000))
        time.sleep(0.0005)
threading.Thread(target=hog).start()
"""


@pytest.mark.kernel
def test_a_real_time_thread_in_an_ordinary_process() -> None:
    with subprocess.Popen([sys.executable, "-c", REALTIME_THREAD], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            tid = process.stdout.readline().decode().strip()
            if not tid:
                pytest.skip(CANNOT + "give a thread real-time priority")
            time.sleep(0.5)
            seen = list(
                _process_threads.Threads().told(
                    HeldFiles(Host()), 0.0, [parse(Path(f"/proc/{process.pid}/stat").read_text())]
                )
            )
        finally:
            process.kill()
    ((subject, (priority, text)),) = values(seen, "thread_realtime_priority").items()
    assert subject.endswith(f"[{tid}]") and priority == 3 and text.startswith("SCHED_RR 3, of ")
    assert values(seen, "thread_realtime_seconds_total")[subject][0] > 0
