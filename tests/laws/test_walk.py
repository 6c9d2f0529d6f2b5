"""The walk in the middle of the chain: dead cgroups make it long, it fills a core, the core's softirqs starve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.core.test_samples import PRINT, SPIN, WALK, WALK_ALL
from tests.laws.chain import judged, kinds, links
from tests.nodes import Sampled, cores, read
from tests.nodes import node as any_node
from tests.signs.test_cgroup_walker import samples
from tests.signs.test_starved_softirq import thread
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline

UNKNOWN = {"kernel_release": "permission denied"}


def node(readings: Sequence[Reading], *, samples: Sequence[Sampled] = ()) -> Timeline:
    """Of a kernel that could not be read, unless a reading says it."""
    known = any(it.what == "kernel_release" for it in readings)
    return any_node(readings, samples=samples, unseen=None if known else UNKNOWN)


DEAD = v1([68_680.0] * 61)
BUSY: Mapping[str, float] = {"system": 0.97, "user": 0.02}
IDLE: Mapping[str, float] = {}


def drowning(cpu: int = 1, start: int = 10, end: int = 20) -> list[Reading]:
    """One core of four full of kernel work for some seconds of a minute."""
    spent = [BUSY if start <= second < end else IDLE for second in range(60)]
    return cores({cpu: spent, **{other: [IDLE] * 60 for other in range(4) if other != cpu}}, every=1.0)


LAW = "zombie_cgroups_to_cgroup_walker"
LINUX_5_4, LINUX_6_8 = (read("kernel_release", "node", 1, 0.0, it) for it in ("5.4.0-1106-aws", "6.8.0-41-generic"))


@pytest.mark.parametrize("kernel", [[], [LINUX_5_4]], ids=["kernel not known", "5.4"])
def test_visits_of_the_dead_make_the_walk_long_where_the_kernel_visits_all(kernel: list[Reading]) -> None:
    (link,) = links(node([*DEAD, *kernel], samples=samples("kubelet[7]", WALK_ALL, 0.3)), LAW)
    assert kinds(link) == {"mechanism"}
    assert "100 % of the walk is visits to cgroups, 99.7 % of them dying" in link.grounds[0].says


@pytest.mark.parametrize(("stack", "kernel"), [(WALK, []), (WALK, [LINUX_6_8]), (WALK_ALL, [LINUX_6_8])])
def test_cold_dead_are_not_blamed_where_only_changed_cgroups_are_visited(stack: str, kernel: list[Reading]) -> None:
    quick = read("stat_read_cpu_seconds", "file:memory.stat", 0.00006, 30.0)
    assert not links(node([*DEAD, *kernel, quick], samples=samples("kubelet[7]", stack, 0.3)), LAW)


def test_a_recording_that_does_not_say_its_kernel_is_judged_as_it_was() -> None:
    (link,) = links(any_node(DEAD, samples=samples("kubelet[7]", WALK, 0.3)), LAW)
    assert kinds(link) == {"mechanism"}


def test_a_read_that_the_live_cannot_account_for_is_a_dose() -> None:
    slow = read("stat_read_cpu_seconds", "file:memory.stat", 0.137, 30.0)
    (link,) = links(node([*DEAD, slow], samples=samples("kubelet[7]", WALK, 0.3)), LAW)
    assert kinds(link) == {"dose"}
    assert "one read took 137 ms; 240 live cgroups take 0.7 ms at most; 2.0 µs for each dying one" in (
        link.grounds[0].says
    )


def test_the_same_read_may_be_of_live_cgroups_on_a_node_of_192_cores() -> None:
    slow, many = read("stat_read_cpu_seconds", "file:memory.stat", 0.137, 30.0), read("cpus_possible", "node", 192, 0.0)
    assert not links(node([*DEAD, slow, many], samples=samples("kubelet[7]", WALK, 0.3)), LAW)


def flushing(length: float) -> tuple[list[Reading], list[Sampled]]:
    """A flush each second that keeps interrupts off, and a poller in between."""
    starts = [second + 0.5 for second in range(60)]
    gaps = [read("core_gap_seconds", "cpu:1", length, at) for at in starts]
    return gaps, [(at + length, 1, "kubelet[7]", WALK) for at in starts]


def test_a_flush_without_interrupts_that_the_live_cannot_account_for_is_caught() -> None:
    gaps, taken = flushing(0.14)
    (link,) = links(node([*DEAD, *gaps], samples=taken), LAW)
    assert kinds(link) == {"mechanism"}
    assert "one flush takes 135 ms with interrupts off; 240 live cgroups take 0.7 ms at most" in link.grounds[0].says
    assert not links(node([*DEAD, *gaps, read("cpus_possible", "node", 256, 0.0)], samples=taken), LAW)


def growing(to: int) -> list[Reading]:
    return v1([10_000.0 + (to - 10_000) * second / 60 for second in range(61)])


def test_visits_that_follow_the_number_of_the_dead_are_a_dose() -> None:
    rising = [
        it
        for second in range(60)
        for it in samples("kubelet[7]", WALK, 0.1 + second / 100, start=second, end=second + 1)
    ]
    (link,) = links(node(growing(70_000), samples=rising), LAW)
    assert kinds(link) == {"dose"} and "follow their number" in link.grounds[0].says
    assert not links(node(growing(11_000), samples=rising), LAW), "their number hardly changed"
    assert not links(node(growing(70_000), samples=samples("kubelet[7]", WALK, 0.4)), LAW), "the cost did not change"


def test_timed_reads_that_follow_their_number_are_a_dose() -> None:
    counts = v1([10_000.0 + 1_000 * second for second in range(61)])
    reads = [
        read("stat_read_cpu_seconds", "file:memory.stat", 0.0005 * (1 + second / 10), second)
        for second in range(0, 61, 10)
    ]
    (link,) = links(
        node([*counts, *reads, read("cpus_possible", "node", 192, 0.0)], samples=samples("kubelet[7]", WALK, 0.4)), LAW
    )
    assert (
        kinds(link) == {"dose"} and "over 7 reads of memory.stat the time follows their number" in link.grounds[0].says
    )


def test_who_only_opens_and_prints_is_not_slowed_by_the_dead() -> None:
    timeline = node(DEAD, samples=samples("poller[9]", PRINT, 0.5))
    assert not links(timeline, LAW)


def test_where_most_that_is_visited_lives_the_dead_are_not_to_blame() -> None:
    timeline = node(v1([4_940.0 + at for at in range(61)], live=3_900), samples=samples("kubelet[7]", WALK, 0.5))
    assert not links(timeline, LAW)


def churning(births: float) -> list[Reading]:
    family = "family:/system.slice/ecs.service/*"
    return [
        read(what, family, total * second / 60, float(second))
        for what, total in (("cgroup_births_total", births), ("cgroup_removals_total", births))
        for second in range(61)
    ] + [read("cgroup_releases_total", family, births, 60.0)]


def test_a_watcher_is_kept_busy_by_folders_that_come_and_go() -> None:
    timeline = node(churning(6000), samples=samples("kubelet[7]", PRINT, 0.4))
    (link,) = links(timeline, "cgroup_churn_to_cgroup_walker")
    assert kinds(link) == {"dose"} and "100 new folders a second" in link.grounds[0].says


@pytest.mark.parametrize(
    ("births", "stack"), [(60, PRINT), (6000, WALK)], ids=["hardly any churn", "the walk is visits, not files"]
)
def test_churn_is_not_blamed(births: float, stack: str) -> None:
    timeline = node(churning(births), samples=samples("kubelet[7]", stack, 0.4))
    assert not links(timeline, "cgroup_churn_to_cgroup_walker")


def on_core(who: str, stack: str, share: float = 0.97) -> list[Sampled]:
    return samples(who, stack, share, start=10, end=20)


def test_a_walk_seen_in_stacks_fills_the_core() -> None:
    timeline = node(drowning(), samples=on_core("kubelet[7]", WALK))
    (link,) = links(timeline, "cgroup_walker_to_saturated_core")
    assert (
        kinds(link) == {"mechanism"}
        and "seen in stacks: this walk is 100 % of what cpu 1 did then" in link.grounds[0].says
    )
    assert "css_rstat_flush" in link.grounds[0].evidence[0].text


def test_an_innocent_walker_beside_a_busy_poller_is_not_blamed() -> None:
    poller = on_core("poller[9]", "main;read;read_zero;clear_user", 0.7)
    timeline = node(drowning(), samples=[*poller, *on_core("kubelet[7]", WALK, 0.3)])
    assert not links(timeline, "cgroup_walker_to_saturated_core")


def test_a_walk_on_another_core_is_not_blamed() -> None:
    walk = samples("kubelet[7]", WALK, 0.9, cpu=2, start=10, end=20)
    assert not links(node(drowning(), samples=[*walk, *on_core("x[9]", SPIN)]), "cgroup_walker_to_saturated_core")


def test_the_kernel_s_worker_is_blamed_as_one() -> None:
    flush = "kthread;worker_thread;flush_memcg_stats_dwork;css_rstat_flush"
    timeline = node(drowning(), samples=on_core("kworker/1:0[11]", flush))
    (link,) = links(timeline, "cgroup_walker_to_saturated_core")
    assert link.cause.subject == "process:kworker (flush_memcg_stats_dwork)"


def off(who: str, stack: str) -> tuple[list[Reading], list[Sampled]]:
    """Interrupts off for 0.4 s of each second, and who is found at the end of each."""
    starts = [second + part / 10 for second in range(10, 20) for part in (0, 5)]
    return [read("core_gap_seconds", "cpu:1", 0.2, at) for at in starts], [(at + 0.2, 1, who, stack) for at in starts]


def test_a_flush_without_interrupts_starves_the_core() -> None:
    gaps, taken = off("kubelet[7]", WALK)
    (link,) = links(node(gaps, samples=taken), "cgroup_walker_to_starved_softirq")
    assert kinds(link) == {"mechanism"} and "3.90 s of 4.00 s with interrupts off" in link.grounds[0].says


def test_another_who_keeps_interrupts_off_is_not_taken_for_the_walk() -> None:
    gaps, taken = off("driver[9]", "main;ioctl;spin_lock_irqsave")
    timeline = node(gaps, samples=[*taken, *samples("kubelet[7]", WALK, 0.5, start=0.005)])
    assert not links(timeline, "cgroup_walker_to_starved_softirq")


def waits(spell: Sequence[float], rest: float = 0.0) -> list[Reading]:
    return thread("ksoftirqd/1", [rest] * 10 + list(spell) + [rest] * (50 - len(spell)), [0.001] * 60)


def test_a_core_full_of_kernel_work_starves_its_softirqs() -> None:
    (link,) = links(node([*drowning(), *waits([0.9] * 10)]), "saturated_core_to_starved_softirq")
    assert kinds(link) == {"place", "dose"}
    assert "ksoftirqd/1 waited 0.90 s of each second then, 0.00 s before" in link.grounds[1].says


def test_another_core_does_not() -> None:
    assert not links(node([*drowning(cpu=2), *waits([0.9] * 10)]), "saturated_core_to_starved_softirq")


def test_a_core_full_of_softirqs_does_not_starve_them() -> None:
    spent: list[Mapping[str, float]] = [{"softirq": 0.95} if 10 <= second < 20 else IDLE for second in range(60)]
    napi = thread("napi/eth0-9", [0.0] * 10 + [0.9] * 10 + [0.0] * 40, [0.001] * 60)
    where = read("thread_cpu", "thread:napi/eth0-9", 1, 15.0)
    timeline = node([*cores({1: spent, 0: [IDLE] * 60}, every=1.0), *napi, where])
    assert not links(timeline, "saturated_core_to_starved_softirq")


def test_without_stacks_the_walk_is_blind_and_the_core_says_what_would_open_the_eye() -> None:
    case = judged(node([*drowning(), *waits([0.9] * 10)]), "saturated_core_to_starved_softirq")
    assert case.links and not case.unexplained
