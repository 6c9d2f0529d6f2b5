"""What makes reclaim slow, and what slow reclaim does: each link with its reason, and where there is none."""

from __future__ import annotations

import pytest
from tests.laws.chain import kinds, links
from tests.nodes import Sampled, cores, node, read
from tests.signs.test_direct_reclaim import POD, busy, counter, globally, hits, waiting
from tests.signs.test_oom_kill import killed as words
from tests.signs.test_oom_kill import why
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading

ENTRY = (
    "read;filemap_add_folio;charge_memcg;try_charge_memcg;try_to_free_mem_cgroup_pages;do_try_to_free_pages;shrink_node"
)
STEP = f"{ENTRY};mem_cgroup_iter"
PAGES = f"{ENTRY};shrink_lruvec;shrink_inactive_list;shrink_folio_list"
SPIN = "main;spin"
STALLED = [*waiting(*[0.48] * 10), *hits(8_700), *busy(), *globally(0, 0)]
DEAD = v1([3_050.0] * 11, live=10)


def caught(stack: str, cpu: int = 1) -> list[Sampled]:
    return [(place / 100, cpu, "reader[7]", stack) for place in range(1000)]


def test_reclaim_that_only_steps_over_the_dead_is_their_doing() -> None:
    timeline = node([*DEAD, *STALLED], samples=caught(STEP))
    (link,) = links(timeline, "zombie_cgroups_to_direct_reclaim")
    assert kinds(link) == {"mechanism"} and "seen in stacks: 100 % of reclaim is stepping" in link.grounds[0].says
    assert "mem_cgroup_iter" in link.grounds[0].evidence[0].text


def test_v2_tells_how_many_dead_are_below_and_the_price_fits() -> None:
    below = read("cgroup_dead_below", POD, 3_000, 0.0)
    (link,) = links(node([*DEAD, *STALLED, below]), "zombie_cgroups_to_direct_reclaim")
    assert kinds(link) == {"place", "dose"}
    assert "110 µs for each hit of the limit, 0.04 µs for each dying cgroup" in link.grounds[1].says


def test_cgroups_that_were_removed_below_and_not_released() -> None:
    family = "family:/kubepods/pod<n>/<id>"
    gone = [read("cgroup_removals_total", family, 400, 10.0), read("cgroup_releases_total", family, 3, 10.0)]
    (link,) = links(node([*DEAD, *STALLED, *gone]), "zombie_cgroups_to_direct_reclaim")
    assert kinds(link) == {"place"}


@pytest.mark.parametrize(
    ("dead", "more", "stack"),
    [
        (DEAD, [], PAGES),
        (DEAD, [], SPIN),
        (v1([3_000.0 + 5 * at for at in range(11)], live=2_000), [], STEP),
        (DEAD, [read("cgroup_dead_below", POD, 3, 0.0)], PAGES),
        (DEAD, [read("cgroup_removals_total", "family:/elsewhere/<id>", 400, 10.0)], PAGES),
        (v1([3_050.0] * 11, live=10, controller="pids", hierarchy=8), [], STEP),
    ],
    ids=[
        *("it works on pages", "it does something else", "most that it steps over live"),
        *("the dead are not below", "they died elsewhere", "dead of another controller"),
    ],
)
def test_the_dead_are_not_blamed(dead: list[Reading], more: list[Reading], stack: str) -> None:
    timeline = node([*dead, *STALLED, *more], samples=caught(stack))
    assert not links(timeline, "zombie_cgroups_to_direct_reclaim")


def drowning() -> list[Reading]:
    return cores({0: [{"user": 0.1}] * 10, 1: [{"system": 0.98}] * 10}, every=1.0)


@pytest.mark.parametrize(("stack", "cpu", "joined"), [(PAGES, 1, True), (SPIN, 1, False), (PAGES, 0, False)])
def test_a_core_is_filled_by_reclaim_only_if_it_was_caught_there(stack: str, cpu: int, joined: bool) -> None:
    timeline = node([*waiting(*[0.48] * 10), *hits(8_700), *drowning()], samples=[*caught(stack, cpu)])
    found = links(timeline, "direct_reclaim_to_saturated_core")
    assert bool(found) == joined and all(kinds(link) == {"mechanism"} for link in found)


def killed(within: str) -> list[Reading]:
    return [read("kernel_log", "node", 3, 8.0, text) for text in (why(7, within, within), words(7))]


def test_a_kill_in_the_cgroup_that_waited() -> None:
    (link,) = links(node([*STALLED, *killed("/kubepods/pod1")]), "direct_reclaim_to_oom_kill")
    assert kinds(link) >= {"place"} and "both in /kubepods/pod1" in link.grounds[0].says


def test_a_kill_that_the_cgroup_itself_counted() -> None:
    counted = [read("cgroup_oom_kills_total", POD, value, at) for at, value in ((0.0, 3), (10.0, 5))]
    (link,) = links(node([*STALLED, *killed("/kubepods/pod1/child"), *counted]), "direct_reclaim_to_oom_kill")
    assert "2 more OOM-killed in /kubepods/pod1" in link.grounds[0].says


def test_a_kill_elsewhere() -> None:
    assert not links(node([*STALLED, *killed("/kubepods/pod2")]), "direct_reclaim_to_oom_kill")


def blocked(where: str) -> list[Reading]:
    return [read("process_blocked_seconds", "process:reader[7]", 9.0, 9.5, where)]


def stalls(memory: float, io: float) -> list[Reading]:
    return [
        *counter("pressure_memory_stalled_seconds_total", [memory] * 10),
        *counter("pressure_io_stalled_seconds_total", [io] * 10),
    ]


def test_tasks_blocked_for_memory() -> None:
    timeline = node([*STALLED, *blocked("reclaim_throttle"), *stalls(0.4, 0.1)])
    (link,) = links(timeline, "direct_reclaim_to_blocked_tasks")
    assert kinds(link) == {"mechanism", "dose"} and "reader[7] waits in reclaim_throttle" in link.grounds[0].says


def inside(path: str) -> Reading:
    return read("process_in_cgroup", "process:reader[7]", 1, 9.5, path)


def test_tasks_blocked_in_the_cgroup_that_reclaims() -> None:
    told = [*STALLED, *blocked("folio_wait_bit"), *stalls(0.4, 0.1)]
    (link,) = links(node([*told, inside("/kubepods/pod1/app")]), "direct_reclaim_to_blocked_tasks")
    assert kinds(link) == {"place", "dose"} and "reader[7] runs in /kubepods/pod1" in link.grounds[0].says
    assert not links(node([*told, inside("/kubepods/pod2")]), "direct_reclaim_to_blocked_tasks")
    assert not links(node(told), "direct_reclaim_to_blocked_tasks"), "where it runs is not known"


@pytest.mark.parametrize(("memory", "io"), [(0.1, 0.9), (0.004, 0.002)], ids=["a disk", "0 % against 0 %"])
def test_tasks_blocked_for_something_else(memory: float, io: float) -> None:
    timeline = node([*STALLED, *blocked("folio_wait_bit"), *stalls(memory, io), inside("/kubepods/pod1")])
    assert not links(timeline, "direct_reclaim_to_blocked_tasks")


def faulting(majors: float) -> list[Reading]:
    return [*counter("vmstat_pgfault_total", [majors] * 10), *counter("vmstat_pgmajfault_total", [majors] * 10)]


@pytest.mark.parametrize(("majors", "joined"), [(9_500, True), (300, False)])
def test_pages_dropped_at_the_limit_are_faulted_in_again(majors: float, joined: bool) -> None:
    found = links(node([*STALLED, *faulting(majors)]), "direct_reclaim_to_page_fault_storm")
    assert bool(found) == joined and all(kinds(link) == {"dose"} for link in found)
