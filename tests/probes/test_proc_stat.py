"""proc_stat: seconds by core and mode, from kernels with four columns to ten."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.probes.machine import damage_in, machine, stat, told

from zombiescope.core import Blind, Reading
from zombiescope.probes import proc_stat
from zombiescope.probes.proc_stat import MODES, in_kernel, parse

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


def test_the_time_in_the_kernel_is_that_of_the_first_row() -> None:
    assert in_kernel(b"cpu  1 2 300 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n") == pytest.approx(3.13)
    for odd in (b"", b"cpu  1 2 3 4", b"cpu  1 2 3 4\n", b"cpu  1 2 x 4 5 6 7 8\n"):
        assert math.isnan(in_kernel(odd))


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


rows_of_cores = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 7]), st.lists(st.integers(0, 10**17), min_size=3, max_size=10)),
    min_size=1,
    max_size=3,
)
endings = st.sampled_from(["ctxt 7\nprocesses 5\nprocs_running 2\n", "ctxt 8\n", "ctxt\n", "cpu5 1 2 3 4\n", "", "x"])
alike = st.tuples(st.sampled_from([4, 8, 10]), st.lists(st.integers(0, 3), min_size=1, max_size=6))


@given(st.lists(st.tuples(rows_of_cores, endings), min_size=1, max_size=3))
def test_by_column_it_says_the_same_or_nothing(samples: list[tuple[list[tuple[int, list[int]]], str]]) -> None:
    texts = [
        "cpu  1 2\n" + "".join(f"cpu{core} {' '.join(map(str, ticks))}\n" for core, ticks in rows) + "intr 1 2\n" + end
        for rows, end in samples
    ]
    by_column([(float(at), text.encode()) for at, text in enumerate(texts)])


@given(alike)
def test_samples_that_are_alike_are_read_by_column(given: tuple[int, list[int]]) -> None:
    width, steps = given
    fetched = [
        (at / 10, b"cpu  1\n" + b"".join(b"cpu%d%s\n" % (core, b" %d" % (core + step) * width) for core in range(3)))
        for at, step in enumerate(steps)
    ]
    assert by_column([(at, text + b"intr 9 9 9\nctxt 70\nbtime 5\nprocs_running 1\n") for at, text in fetched])


@pytest.mark.parametrize(
    "line", ["cpu0 1 2 3  4", "cpu0 1 2 3 4 ", "c1pu 1 2 3 4", "cpu 0 1 2 3 4", "cpu0\t1 2 3 4", "0 1 2 3 4"]
)
def test_what_is_written_in_another_way_is_left_to_the_parser(line: str) -> None:
    text = f"cpu  1\ncpu9 1 2 3 4\n{line}\nintr 1\n".encode()
    assert proc_stat.columns([(0.0, text), (0.1, text)]) is None


def by_column(fetched: list[tuple[float, bytes]]) -> bool:
    """Whether it could be read by column; then it must be what the parser says."""
    found = proc_stat.columns(fetched)
    if found is None:
        return False
    said = {
        (it.what, it.subject, at, value)
        for it in found
        if not isinstance(it, Blind)
        for at, value in zip(it.at.tolist(), it.values.tolist(), strict=True)
    }
    one_by_one = list(proc_stat.readings(fetched))
    readings = [it for it in one_by_one if isinstance(it, Reading)]
    assert said == {(it.what, it.subject, it.at, float(it.value)) for it in readings} and len(said) == len(readings)
    assert [it for it in found if isinstance(it, Blind)] == [it for it in one_by_one if isinstance(it, Blind)]
    return True
