"""The census: dead cgroups by hierarchy, only where both witnesses spoke."""

from __future__ import annotations

import pytest

from zombiescope.cgroups.census import PERCPU_EACH, SLAB_EACH, Census, bytes_each, bytes_held, count, uncounted
from zombiescope.core import Blind, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.tape import Tape

Rows = dict[tuple[str, str], float]


def look(tape: Tape, at: float, rows: Rows) -> None:
    for (what, subject), value in rows.items():
        tape.add(Reading(what=what, subject=subject, value=value, at=at, source=f"/proc/{what}"))
    tape.look("probe", sorted({what for what, _ in rows}), at)


def timeline(*looks: Rows, every: float = 1.0) -> Timeline:
    tape = Tape()
    for place, rows in enumerate(looks):
        look(tape, 100 + place * every, rows)
    return tape.timeline()


def row(controller: str, hierarchy: int, known: float, folders: float | None = None) -> Rows:
    """One controller in /proc/cgroups, and its folders if they could be counted."""
    subject = f"controller:{controller}"
    rows: Rows = {("cgroups_known", subject): known, ("cgroup_hierarchy", subject): hierarchy}
    return rows if folders is None else rows | {("cgroup_folders", subject): folders}


def v2(live: float, dying: float, **controllers: tuple[float, float]) -> Rows:
    """cgroup.stat: the whole, and by controller (live, dying) where the kernel tells them apart."""
    rows: Rows = {
        ("cgroup_version", "hierarchy:v2"): 2,
        ("cgroup_descendants", "hierarchy:v2"): live,
        ("cgroup_dying_descendants", "hierarchy:v2"): dying,
    }
    for name, (alive, dead) in controllers.items():
        rows |= {("cgroup_subsys", f"controller:{name}"): alive, ("cgroup_dying_subsys", f"controller:{name}"): dead}
    return rows


def told(census: Census) -> tuple[tuple[str, ...], float, float, float]:
    return census.controllers, census.known, census.live, census.dead


def test_v1() -> None:
    node = timeline(row("pids", 8, 240, 240) | row("memory", 4, 68680, 240))
    assert [told(it) for it in count(node)] == [(("memory",), 68680, 240, 68440), (("pids",), 240, 240, 0)]
    memory = count(node)[0]
    assert memory.subject == "controller:memory"
    assert [(it.what, it.value) for it in memory.evidence] == [("cgroups_known", 68680), ("cgroup_folders", 240)]
    assert (memory.grown, memory.growth_per_hour) == (0, 0)
    assert uncounted(node) == []


def test_growth() -> None:
    node = timeline(*(row("memory", 4, known, 240) for known in (1000, 1005, 1023)), every=60)
    (census,) = count(node)
    assert list(census.dying.values) == [760, 765, 783]
    assert census.grown == 23
    assert census.growth_per_hour == pytest.approx(23 / 120 * 3600)


def test_controllers_that_share_a_hierarchy_are_one_census() -> None:
    (census,) = count(timeline(row("cpu", 3, 172, 170) | row("cpuacct", 3, 172, 170)))
    assert told(census) == (("cpu", "cpuacct"), 172, 170, 2)
    assert census.subject == "controller:cpu,cpuacct"


def test_v2_by_controller() -> None:
    node = timeline(
        row("cpu", 0, 42) | row("memory", 0, 68482) | v2(41, 68440, memory=(42, 68440), cpu=(42, 3)),
    )
    assert [told(it) for it in count(node)] == [(("memory",), 68482, 42, 68440), (("cpu",), 45, 42, 3)]
    assert uncounted(node) == []


def test_v2_without_a_row_for_memory() -> None:
    """Since 6.12 a kernel without v1 has no such row in /proc/cgroups."""
    node = timeline(row("freezer", 0, 42) | v2(41, 7, memory=(42, 7)))
    assert [told(it) for it in count(node)] == [(("memory",), 49, 42, 7)]
    assert uncounted(node) == []


def test_v2_as_a_whole() -> None:
    node = timeline(row("memory", 0, 49) | row("cpu", 0, 49) | v2(41, 7), row("memory", 0, 52) | v2(41, 10))
    (census,) = count(node)
    assert told(census) == (("cpu", "memory"), 52, 42, 10)
    assert census.grown == 3
    assert uncounted(node) == []


def test_hybrid() -> None:
    node = timeline(row("memory", 4, 263, 240) | row("hugetlb", 0, 1) | v2(0, 0, hugetlb=(1, 0)))
    assert [told(it) for it in count(node)] == [(("memory",), 263, 240, 23), (("hugetlb",), 1, 1, 0)]
    assert uncounted(node) == []


def test_a_container_counts_nothing() -> None:
    tape = Tape()
    look(tape, 100, row("memory", 4, 68680) | row("net_cls", 0, 1))
    tape.look("probe", ("cgroup_folders",), 100, [Blind(what="cgroup_folders", source="$ find", why="only a part")])
    assert count(tape.timeline()) == []
    assert uncounted(tape.timeline()) == ["memory"]  # net_cls is bound to no hierarchy


def test_a_container_of_v2_counts_nothing() -> None:
    node = timeline(row("memory", 0, 68680) | {("cgroup_version", "hierarchy:v2"): 2})
    assert count(node) == []
    assert uncounted(node) == ["memory"]


def test_a_cgroup_removed_between_the_two_counts_is_not_less_than_none() -> None:
    (census,) = count(timeline(row("memory", 4, 240, 242), row("memory", 4, 241, 240)))
    assert list(census.dying.values) == [0, 1]


@pytest.mark.parametrize(("apart", "counted"), [(0.002, 1), (0.9, 1), (-0.9, 1), (1.5, 0), (-1.5, 0)])
def test_witnesses_are_joined_only_if_they_spoke_together(apart: float, counted: int) -> None:
    tape = Tape()
    look(tape, 100, row("memory", 4, 263))
    look(tape, 100 + apart, {("cgroup_folders", "controller:memory"): 240})
    assert [it.dead for it in count(tape.timeline())] == [23] * counted


def test_nothing_at_all() -> None:
    assert count(Timeline()) == [] and uncounted(Timeline()) == []


def test_what_the_dead_hold() -> None:
    assert bytes_each(Timeline()) == SLAB_EACH + PERCPU_EACH
    cores: Rows = {("cpus_possible", "node"): 96}
    assert bytes_each(timeline(cores)) == SLAB_EACH + 96 * PERCPU_EACH
    assert bytes_held(timeline(cores), 10) == 10 * bytes_each(timeline(cores))
    small = timeline(cores | {("memory_slab_bytes", "node"): 1e6, ("memory_percpu_bytes", "node"): 5e5})
    assert bytes_held(small, 70_000) == 1.5e6  # never more than there is
