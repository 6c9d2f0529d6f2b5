"""proc_stat: seconds by core and mode, from kernels with four columns to ten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, stat, told

from zombiescope.probes import proc_stat
from zombiescope.probes.proc_stat import MODES, parse

OFFLINE = "cpu  4 4 4 4\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu2 10 20 30 40 50 60 70 80 90 100\nctxt 7\n"


def test_new() -> None:
    found = parse(stat())
    assert dict(zip(MODES, found.cores[0], strict=True)) == {
        "user": 444.9,
        "nice": 0.19,
        "system": 210.45,
        "idle": 10870.69,
        "iowait": 2.2,
        "irq": 0.01,
        "softirq": 34.1,
        "steal": 0.0,
    }
    assert found.counts == {
        "context_switches_total": 38014093,
        "forks_total": 26442,
        "procs_running": 2,
        "procs_blocked": 1,
    }


def test_a_core_that_is_off_line_has_no_row() -> None:
    assert list(parse(OFFLINE).cores) == [0, 2]


@pytest.mark.parametrize("columns", [4, 7, 8, 10, 12])
def test_columns_of_every_age(columns: int) -> None:
    row = parse("cpu0 " + " ".join(["100"] * columns) + "\n").cores[0]
    assert row == (1.0,) * min(columns, len(MODES))


DAMAGED = {
    "": 1,
    "cpu  1 2 3 4\nctxt 5\n": 1,
    "cpu  1 2 3 4\ncpu0 1 2 three 4\n": 2,
    "cpu  1 2 3 4\ncpuX 1 2 3 4\n": 2,
    "cpu0 1 2 3 4\nctxt\n": 2,
    "cpu0 1 2 3 4\ncpu1 1 2 3\n": 2,
}


@pytest.mark.parametrize(("text", "line"), DAMAGED.items())
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/stat", line)


def test_read(tmp_path: Path) -> None:
    seen = told(proc_stat, machine(tmp_path, {"proc/stat": OFFLINE}))
    assert seen["cpu_idle_seconds_total", "cpu:2"] == 0.4
    assert seen["cpu_softirq_seconds_total", "cpu:0"] == 0.07
    assert seen["context_switches_total", "node"] == 7
    assert len(seen) == 2 * len(MODES) + 1
