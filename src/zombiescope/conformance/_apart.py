"""Run a stranger's code in a process of its own: what hangs, crashes or prints there does so alone."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from zombiescope.conformance._complaint import Complaint

PATIENCE = 30.0  # seconds: the slowest of our own members is checked in one
MOST_BYTES = 1 << 20


def apart(act: Callable[[], list[Complaint]], patience: float = PATIENCE) -> list[Complaint]:
    """What `act` returns in another process; if it does not come back, that is the complaint."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _act(act, reading, writing)
    os.close(writing)
    try:
        said = _heard(reading, time.monotonic() + patience)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # and whatever it has started
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said is None:
        says, mend = f"no answer within {patience:.0f} s", "it must not wait for anything: a diagnosis would hang"
        return [Complaint(says=says, mend=mend)]
    try:
        return [Complaint(**it) for it in json.loads(said)]
    except (ValueError, TypeError):
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return [Complaint(says=f"it ends the process that runs it ({how})", mend="it must return, or raise")]


def _act(act: Callable[[], list[Complaint]], reading: int, writing: int) -> None:
    """In the child. It never returns, whatever is raised."""
    try:
        os.setsid()
        os.close(reading)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        left = memoryview(json.dumps([asdict(it) for it in act()]).encode())
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _heard(reading: int, deadline: float) -> bytes | None:
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            continue
        part = os.read(reading, 1 << 16)
        said += part
        if not part or len(said) > MOST_BYTES:
            return said
    return None
