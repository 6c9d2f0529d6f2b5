"""Real load on one core: system calls saturate it, a program's own work does not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import Run

from zombiescope.signs.saturated_core import FULL

CPU = max(os.sched_getaffinity(0))
# Reading zeroes by the megabyte is memory filled by the kernel: nearly all of it system time.
SYSTEM_CALLS = "zero = os.open('/dev/zero', os.O_RDONLY); page = bytearray(1 << 20)\nwhile True: os.readv(zero, [page])"
BURSTS = """
import time
zero = os.open('/dev/zero', os.O_RDONLY); page = bytearray(1 << 20)
while True:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: os.readv(zero, [page])
    time.sleep(0.7)
"""
USER_LOOP = "while True: pass"


def diagnose(zombiescope: Run, *argv: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(zombiescope("diagnose", "--format", "json", *argv).stdout)
    return shape


@pytest.mark.kernel
def test_a_loop_of_system_calls_saturates_its_core_and_no_other(
    zombiescope: Run, pinned: Callable[[int, str], None]
) -> None:
    pinned(CPU, SYSTEM_CALLS)
    shape = diagnose(zombiescope, "--seconds", "4")
    found = [it for it in shape["findings"] if it["sign"] == "saturated_core"]
    assert {it["subject"] for it in found} == {f"cpu:{CPU}"}
    figures = {it["what"]: it["value"] for it in found[0]["evidence"]}
    # A neighbour may keep the other cores busy: then nothing hides it.
    hides = "the node's average of" if figures["cpu_busy_ratio"] < FULL else "the whole node was"
    assert "busy in the kernel for" in found[0]["says"] and hides in found[0]["says"]
    assert figures["cpu_system_ratio"] > 0.85
    assert {it["source"] for it in found[0]["evidence"]} == {"/proc/stat", "$ perf record -a -g"}
    assert re.search(r"\d+ % of it python[\d.]*\[\d+\] in \w", found[0]["says"]), "who holds it is told too"


@pytest.mark.kernel
def test_a_short_burst_is_seen_when_asked_for(zombiescope: Run, pinned: Callable[[int, str], None]) -> None:
    pinned(CPU, BURSTS)
    assert not [it for it in diagnose(zombiescope, "--seconds", "3")["findings"] if it["sign"] == "saturated_core"]
    fine = (
        "--set",
        "proc_stat.EVERY=0.05",
        "--set",
        "saturated_core.SECONDS=0.2",
        "--set",
        "saturated_core.BRIDGE=0.1",
    )
    # Of six bursts two at least: a neighbour that comes to this core takes its part of one.
    shape = diagnose(zombiescope, "--seconds", "8", *fine)
    found = [it for it in shape["findings"] if it["sign"] == "saturated_core" and it["subject"] == f"cpu:{CPU}"]
    assert len(found) >= 2
    assert all(0.2 <= it["span"]["end"] - it["span"]["start"] < 0.8 for it in found)
    assert shape["settings"] == [item for item in fine if item != "--set"]


@pytest.mark.kernel
def test_a_program_s_own_work_is_not_called_starvation(zombiescope: Run, pinned: Callable[[int, str], None]) -> None:
    pinned(CPU, USER_LOOP)
    shape = diagnose(zombiescope, "--seconds", "3")
    assert not [it for it in shape["findings"] if it["sign"] == "saturated_core" and it["subject"] == f"cpu:{CPU}"]
