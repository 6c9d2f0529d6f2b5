"""A part of a perf.data file: what is read of it alone is what it is in the whole."""

from __future__ import annotations

import pytest
from tests.profile.perf_data_file import KERNEL, PLAIN, USER, PerfData, one_of_everything
from tests.profile.test_perf_data import WORK, read, told

from zombiescope.core.samples import Samples
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.perf_data_records import PIECE

IDLE = 0xFFFFFFFF81000310


def long_file() -> PerfData:
    """Some pieces long, on two cores, the idle task now and then; times within a piece are not in order."""
    made = PerfData(PLAIN)
    for at in range(PIECE // 200):
        chain = (KERNEL, IDLE) if at % 3 == 0 else (KERNEL, WORK, USER, *range(0x401000, 0x401000 + at % 90))
        made.sample(1000 + (at ^ 1), *chain, cpu=at % 2, pid=0 if at % 3 == 0 else 7)
    return made


@pytest.fixture(scope="module")
def whole_and_glance() -> tuple[Samples, Samples]:
    data = long_file().file()
    assert len(data) > PIECE
    return read(data), read(data, stacks=False)


def test_when_where_and_idle_are_known_without_stacks(whole_and_glance: tuple[Samples, Samples]) -> None:
    whole, glance = whole_and_glance
    assert (glance.at == whole.at).all() and (glance.cpu == whole.cpu).all() and (glance.busy == whole.busy).all()
    assert 0 < int(whole.busy.sum()) < len(whole)
    assert heatmap(glance, 100).tolist() == heatmap(whole, 100).tolist()


@pytest.mark.parametrize(
    "spans", [[(1500, 1600)], [(1100, 1105), (9000, 9020)], [(0, 1 << 60)], [(5, 6)], [(2000, 3000), (2500, 3500)]]
)
def test_a_part_in_full_is_the_same_as_in_the_whole(
    whole_and_glance: tuple[Samples, Samples], spans: list[tuple[int, int]]
) -> None:
    whole, glance = whole_and_glance
    assert glance.in_full is not None
    part = glance.in_full(spans)
    meant = [it for it in told(whole) if any(start <= it[0] < end for start, end in spans)]
    assert sorted(told(part)) == sorted(meant)
    assert (part.unit, part.hz, part.clock) == (whole.unit, whole.hz, whole.clock)


@pytest.mark.parametrize("data", [one_of_everything().file(), one_of_everything().piped()])
def test_names_of_threads_and_programs_come_from_all_of_the_file(data: bytes) -> None:
    glance = read(data, stacks=False)
    assert glance.in_full is not None
    for at, *rest in told(read(data)):
        assert [it[1:] for it in told(glance.in_full([(at, at + 1)]))] == [tuple(rest)]
