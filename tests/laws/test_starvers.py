"""Laws about cores that are not to be had: each joins what shares a core, a cgroup or a cost, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest
from tests.nodes import T0, cores, node, read

from zombiescope.core.model import Finding, Ground, Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.laws import (
    cpu_throttling_to_starved_thread,
    fork_storm_to_saturated_core,
    realtime_hog_to_starved_softirq,
    realtime_hog_to_starved_thread,
    saturated_core_to_starved_softirq,
    saturated_core_to_starved_thread,
    softirq_storm_to_saturated_core,
    stolen_cpu_to_starved_softirq,
    stolen_cpu_to_starved_thread,
)

HOG, JOB, NAPI = "process:hog[7]", "process:job[8]", "thread:napi/eth0-8193"


def finding(subject: str, *evidence: Reading) -> Finding:
    return Finding(subject=subject, span=Span(T0, T0 + 10), says="", evidence=evidence)


def on(core: int, subject: str, what: str = "process_cpu") -> list[Reading]:
    return [read(what, subject, core, at) for at in (0.0, 5.0, 10.0)]


def grounds(law: ModuleType, cause: Finding, effect: Finding, timeline: Timeline) -> dict[str, Ground]:
    return {ground.kind: ground for ground in law.grounds(cause, effect, timeline)}


hog = finding(
    HOG,
    read("realtime_used_ratio", HOG, 0.95, 0.0),
    read("process_realtime_priority", HOG, 50, 5.0, "SCHED_FIFO 50"),
)
starved = finding(JOB, read("run_delay_ratio", JOB, 0.9, 0.0))
softirq = finding("cpu:1", read("thread_run_delay_ratio", NAPI, 0.88, 0.0))


def test_a_hog_starves_who_is_on_its_core() -> None:
    found = grounds(realtime_hog_to_starved_thread, hog, starved, node([*on(1, HOG), *on(1, JOB)]))
    assert found["place"].says == "both were on cpu 1"
    assert found["mechanism"].says == (
        "SCHED_FIFO 50 used 95 % of a core while a thread with no real-time priority waited 90 % of the time"
    )


def test_a_hogging_thread_starves_a_kernel_thread() -> None:
    thread = "thread:poll[71]"
    cause = finding(
        thread,
        read("realtime_used_ratio", thread, 0.95, 0.0),
        read("thread_realtime_priority", thread, 9, 5.0, "SCHED_RR 9, of java[70]"),
    )
    effect = finding("thread:rcu_preempt", read("run_delay_ratio", "thread:rcu_preempt", 0.9, 0.0))
    places = [*on(1, thread, "thread_realtime_cpu"), *on(1, "thread:rcu_preempt", "thread_cpu")]
    assert set(grounds(realtime_hog_to_starved_thread, cause, effect, node(places))) == {"place", "mechanism"}


def test_a_hog_is_not_blamed_for_who_is_on_another_core_or_above_it() -> None:
    law = realtime_hog_to_starved_thread
    assert not grounds(law, hog, starved, node([*on(1, HOG), *on(0, JOB)]))
    assert not grounds(law, hog, starved, node(on(1, HOG))), "where it waits is not known"
    above = [read("process_realtime_priority", JOB, 60, 0.0), *on(1, HOG), *on(1, JOB)]
    assert not grounds(law, hog, starved, node(above))
    roams = [read("process_cpu", JOB, core, at) for core, at in ((1, 0.0), (0, 5.0), (1, 10.0))]
    assert not grounds(law, hog, starved, node([*on(1, HOG), *roams])), "it ran elsewhere meanwhile"


def test_a_hog_starves_threads_of_softirqs_on_its_core_only() -> None:
    law = realtime_hog_to_starved_softirq
    found = grounds(law, hog, softirq, node(on(1, HOG)))
    assert set(found) == {"place", "mechanism"} and "napi/eth0-8193, an ordinary thread" in found["mechanism"].says
    assert not grounds(law, hog, softirq, node(on(0, HOG)))
    no_thread = finding("cpu:1", read("core_gap_ratio", "cpu:1", 0.5, 0.0))
    assert not grounds(law, hog, no_thread, node(on(1, HOG))), "priority does not keep interrupts off"


def test_a_saturated_core_starves_who_may_run_nowhere_else() -> None:
    law = saturated_core_to_starved_thread
    full = finding("cpu:1", read("cpu_kernel_ratio", "cpu:1", 0.97, 0.0))
    bound = node([read("process_cpus_allowed", JOB, 1, 5.0, "1")])
    assert grounds(law, full, starved, bound)["place"].says == (
        "it can run only on cpu 1, which was 97 % busy in the kernel"
    )
    assert not grounds(law, replace(full, subject="cpu:0"), starved, bound)
    free = node([read("process_cpus_allowed", JOB, 2, 5.0, "0-1"), *on(1, JOB)])
    assert not grounds(law, full, starved, free)


@pytest.mark.parametrize("whose", ["cpu:1", "node"])
def test_stolen_time_starves_what_is_on_that_core(whose: str) -> None:
    stolen = finding(whose, read("cpu_steal_ratio", whose, 0.8, 0.0))
    kept = node([*cores({0: [{}] * 40, 1: [{"steal": 0.8}] * 40}), *on(1, JOB)])
    assert set(grounds(stolen_cpu_to_starved_softirq, stolen, softirq, kept)) == {"place", "dose"}
    assert set(grounds(stolen_cpu_to_starved_thread, stolen, starved, kept)) == {"place", "dose"}


def test_stolen_time_is_not_blamed_elsewhere_or_when_it_is_too_little() -> None:
    stolen = finding("cpu:0", read("cpu_steal_ratio", "cpu:0", 0.8, 0.0))
    kept = node([*cores({0: [{"steal": 0.8}] * 40, 1: [{}] * 40}), *on(1, JOB)])
    little = node([*cores({0: [{}] * 40, 1: [{"steal": 0.2}] * 40}), *on(1, JOB)])
    here = replace(stolen, subject="cpu:1")
    for law, effect in ((stolen_cpu_to_starved_softirq, softirq), (stolen_cpu_to_starved_thread, starved)):
        assert not grounds(law, stolen, effect, kept)
        assert not grounds(law, here, effect, little)


@pytest.mark.parametrize(
    ("group", "kinds"),
    [
        ("/kube/pod1", {"place", "dose"}),
        ("/kube/pod1/app", {"place", "dose"}),
        ("/kube/pod10", set()),
        ("/", set()),
    ],
    ids=["in it", "below it", "a name that begins the same", "elsewhere"],
)
def test_a_quota_starves_who_is_in_the_cgroup(group: str, kinds: set[str]) -> None:
    timeline = node([read("process_in_cgroup", JOB, 1, 5.0, group)])
    assert set(grounds(cpu_throttling_to_starved_thread, throttled("/kube/pod1", 0.8), starved, timeline)) == kinds


@pytest.mark.parametrize(("bins", "said"), [("1024:90", False), ("1024:90 65536:41", True)])
def test_waits_that_were_timed_in_the_cgroup_are_the_mechanism(bins: str, said: bool) -> None:
    text = f"2.00 s; 1.900000 s in all; one in 1 below 16384; from µs: {bins}"
    waits = read("cgroup_run_delay_seconds", "cgroup:/kube/pod1", 0.093, 5.0, text)
    timeline = node([read("process_in_cgroup", JOB, 1, 5.0, "/kube/pod1"), waits])
    found = grounds(cpu_throttling_to_starved_thread, throttled("/kube/pod1", 0.8), starved, timeline)
    assert set(found) == {"place", "dose", *(("mechanism",) if said else ())}
    if said:
        assert "/kube/pod1 waited up to 93 ms to run, 41 times over 16 ms in 2.0 s" in found["mechanism"].says


def throttled(path: str, seconds: float, periods: float = 0.5) -> Finding:
    figures = {"cgroup_throttled_seconds_per_second": seconds, "cgroup_throttled_ratio": periods}
    return finding(f"cgroup:{path}", *(read(what, f"cgroup:{path}", value, 0.0) for what, value in figures.items()))


@pytest.mark.parametrize(("periods", "joined"), [(0.5, False), (1.0, True)])
def test_a_quota_that_hardly_stops_explains_a_long_wait_only_if_it_is_used_up_in_every_period(
    periods: float, joined: bool
) -> None:
    """On a full node a thread waits for its core first: less of its wait is then counted as throttled."""
    timeline = node([read("process_in_cgroup", JOB, 1, 5.0, "/a")])
    found = grounds(cpu_throttling_to_starved_thread, throttled("/a", 0.15, periods), starved, timeline)
    assert bool(found) == joined


FORKING = "main;fork;do_syscall_64;kernel_clone;copy_process;dup_mm"


def forking(share: float, cpu: int = 1, stack: str = FORKING) -> dict[str, Ground]:
    """A fork storm of 2,000 a second and a full core, of whose samples a share forks."""
    storm = finding("node", read("forks_per_second", "node", 2000, 0.0))
    full = finding("cpu:1", read("cpu_system_ratio", "cpu:1", 0.97, 0.0))
    taken = [
        (at / 100, cpu if at % 100 < 100 * share else 1, "sh[9]", stack if at % 100 < 100 * share else "main;spin")
        for at in range(1000)
    ]
    counted = [read("forks_total", "node", 2000 * at / 4, at / 4) for at in range(41)]
    timeline = node([*cores({0: [{}] * 40, 1: [{"system": 0.97}] * 40}), *counted], samples=taken)
    return grounds(fork_storm_to_saturated_core, storm, full, timeline)


def test_forks_fill_a_core_where_its_stacks_show_them() -> None:
    found = forking(0.6)
    assert set(found) == {"mechanism", "dose"}
    assert "fork, exec and exit are 60 % of what cpu 1 did then" in found["mechanism"].says
    assert not forking(0.2), "most of it is something else"
    assert not forking(0.6, cpu=0), "another core forks"
    assert not forking(0.6, stack="main;read;memory_stat_show"), "it does something else"


@pytest.mark.parametrize("forks", [100, 2000, 200_000])
def test_forks_elsewhere_do_not_fill_a_core_by_their_number(forks: int) -> None:
    storm = finding("node", read("forks_per_second", "node", forks, 0.0))
    full = finding("cpu:1", read("cpu_system_ratio", "cpu:1", 0.97, 0.0))
    counted = [read("forks_total", "node", forks * at / 4, at / 4) for at in range(41)]
    timeline = node([*cores({0: [{}] * 40, 1: [{"system": 0.97}] * 40}), *counted])
    assert not grounds(fork_storm_to_saturated_core, storm, full, timeline)
    assert fork_storm_to_saturated_core.lacks(full, timeline) == (
        "no stacks show whether cpu 1 was busy with fork and exec"
    )


def timed(what: str, kind: str, core: int, worst: float, bins: str, total: float = 1.0) -> list[Reading]:
    """Two samples of one histogram, as softirq_events gives them."""
    text = f"2.00 s; {total:.6f} s in all; one in 4 below 16384; from µs: {bins}"
    return [read(what, f"softirq:{kind}/{core}", worst, at, text) for at in (4.0, 6.0)]


WAITS = timed("softirq_wait_seconds", "NET_RX", 1, 0.812, "1:900 16384:20 524288:3")


def test_softirqs_timed_while_they_waited_are_the_mechanism() -> None:
    hogging = node([*on(1, HOG), *WAITS])
    full = finding("cpu:1", read("cpu_kernel_ratio", "cpu:1", 0.97, 0.0))
    for law, cause in ((realtime_hog_to_starved_softirq, hog), (saturated_core_to_starved_softirq, full)):
        found = grounds(law, cause, softirq, hogging)["mechanism"]
        assert found.says == (
            "timed by eBPF: NET_RX on cpu 1 waited up to 812 ms between raise and run, 46 times over 16 ms in 4.0 s"
        )
        assert found.evidence[0].value == 0.812


@pytest.mark.parametrize(
    "waits",
    [
        timed("softirq_wait_seconds", "NET_RX", 1, 0.009, "1:900 8192:3"),  # short ones are ordinary
        timed("softirq_wait_seconds", "NET_RX", 11, 0.8, "524288:3"),  # another core
        [replace(it, at=it.at + 20) for it in WAITS],  # later
        [replace(it, text="from µs: many") for it in WAITS],
        [],
    ],
)
def test_waits_that_are_short_elsewhere_later_or_not_understood_are_not(waits: list[Reading]) -> None:
    full = finding("cpu:1", read("cpu_kernel_ratio", "cpu:1", 0.97, 0.0))
    assert "mechanism" not in grounds(saturated_core_to_starved_softirq, full, softirq, node([*waits, *on(1, HOG)]))


@pytest.mark.parametrize(("total", "known"), [(1.2, True), (0.9, False)])
def test_softirqs_that_fill_a_core_are_why_its_threads_wait(total: float, known: bool) -> None:
    runs = timed("softirq_run_seconds", "NET_RX", 1, 0.0123, "1:90000 8192:3", total)
    bound = [read("process_cpus_allowed", JOB, 1, at, "1") for at in (0.0, 5.0, 10.0)]
    full = finding("cpu:1", read("cpu_kernel_ratio", "cpu:1", 0.97, 0.0), read("cpu_softirq_ratio", "cpu:1", 0.95, 0.0))
    storm = finding("cpu:1", read("cpu_softirq_ratio", "cpu:1", 0.95, 0.0))
    timeline = node([*runs, *bound])
    for law, cause, effect in (
        (saturated_core_to_starved_thread, full, starved),
        (softirq_storm_to_saturated_core, storm, full),
    ):
        found = grounds(law, cause, effect, timeline)
        assert ("mechanism" in found) == known and "place" in found
        if known:
            assert found["mechanism"].says == ("timed by eBPF: NET_RX ran 0.60 s of each second, up to 12.3 ms at once")
