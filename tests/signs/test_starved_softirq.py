"""starved_softirq: a ksoftirqd or NAPI thread that waits far more than it runs, and interrupts that stay off."""

from __future__ import annotations

import pytest
from tests.nodes import cores, node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import starved_softirq


def thread(name: str, waits: list[float], runs: list[float]) -> list[Reading]:
    """How much of each second a thread waited and ran."""
    readings = []
    for what, shares in (("thread_run_delay_seconds_total", waits), ("thread_run_seconds_total", runs)):
        total = 100.0
        for second, share in enumerate([0.0, *shares]):
            total += share
            readings.append(read(what, f"thread:{name}", total, second))
    return readings


def case(readings: list[Reading]) -> Case:
    return examine(node(readings), signs={"starved_softirq": starved_softirq}, laws={})


QUIET = [0.002] * 20


def test_a_waiting_ksoftirqd_is_starved_and_its_queues_are_told() -> None:
    waits = [*[0.0] * 5, *[0.9] * 6, *[0.0] * 9]
    queue = read("nic_irq_cpu", "irq:33", 3, 0.0, "eth0-Tx-Rx-5")
    other = read("nic_irq_cpu", "irq:34", 2, 0.0, "eth0-Tx-Rx-6")
    readings = [*thread("ksoftirqd/3", waits, [0.01] * 20), *thread("ksoftirqd/2", QUIET, QUIET), queue, other]
    (found,) = case(readings).findings
    assert found.subject == "cpu:3" and found.span.seconds == pytest.approx(6)
    assert "starved its softirqs: ksoftirqd/3 waited 0.90 s of each second to run and ran 0.010 s" in found.says
    assert "it serves eth0-Tx-Rx-5" in found.says and queue in found.evidence and other not in found.evidence
    assert found.evidence[0].what == "thread_run_delay_ratio" and found.evidence[0].subject == "thread:ksoftirqd/3"


def test_a_napi_thread_is_placed_by_where_it_ran() -> None:
    readings = [*thread("napi/eth0-8193", [0.8] * 10, [0.0] * 10), read("thread_cpu", "thread:napi/eth0-8193", 5, 9)]
    (found,) = case(readings).findings
    assert found.subject == "cpu:5"


def test_interrupts_that_stay_off() -> None:
    gaps = [read("core_gap_seconds", "cpu:1", 0.04, place * 0.06) for place in range(100)]
    (found,) = case(gaps).findings
    assert found.subject == "cpu:1" and "up to 40 ms at once" in found.says
    assert "interrupts were off for" in found.says and "the NIC queues it serves are not known" in found.says


def test_both_ways_of_seeing_one_starvation_are_one_finding() -> None:
    gaps = [read("core_gap_seconds", "cpu:1", 0.3, float(second)) for second in range(3, 9)]
    (found,) = case([*thread("ksoftirqd/1", [0.0, 0.0, *[0.5] * 6, 0.0], [0.0] * 9), *gaps]).findings
    assert "waited" in found.says and "interrupts were off" in found.says


@pytest.mark.parametrize("mode", ["idle", "iowait", "steal"])
def test_a_core_that_idled_or_was_taken_away_was_not_without_interrupts(mode: str) -> None:
    gaps = [read("core_gap_seconds", "cpu:1", 0.7, float(second)) for second in range(10)]
    assert case([*gaps, *cores({1: [{"system": 0.9}] * 12}, every=1.0)]).findings
    assert not case([*gaps, *cores({1: [{mode: 0.9}] * 12 if mode != "idle" else [{}] * 12}, every=1.0)]).findings


def test_a_node_that_was_suspended_had_no_interrupts_off() -> None:
    """All cores at once, and none was idle: the node itself stood still."""
    readings = cores({cpu: [{"system": 0.9}] * 12 for cpu in range(8)}, every=1.0)
    gaps = [[read("core_gap_seconds", f"cpu:{cpu}", 0.7, float(it)) for it in range(10)] for cpu in range(8)]
    assert case([*readings, *gaps[1]]).findings
    assert not case([*readings, *(it for own in gaps for it in own)]).findings


def test_while_softirqs_run_otherwise_a_waiting_ksoftirqd_is_no_harm() -> None:
    waits = thread("ksoftirqd/1", [0.6] * 10, [0.003] * 10)
    assert case([*waits, *cores({1: [{"system": 0.9}] * 10}, every=1.0)]).findings
    assert not case([*waits, *cores({1: [{"system": 0.65, "softirq": 0.3}] * 10}, every=1.0)]).findings


@pytest.mark.parametrize(
    ("waits", "runs"),
    [([0.5] * 20, [0.5] * 20), ([0.1] * 20, [0.0] * 20), ([0.0, 0.9, *[0.0] * 18], [0.0] * 20)],
    ids=["shares its core with who sends", "waits a little", "one second only"],
)
def test_silent(waits: list[float], runs: list[float]) -> None:
    result = case(thread("ksoftirqd/0", waits, runs))
    assert not result.findings and result.verdicts[0].state == "clear"
    assert "ksoftirqd/0 waited most" in result.verdicts[0].says and result.verdicts[0].evidence


@pytest.mark.parametrize(("running", "runs", "found"), [(2, 0.08, True), (16, 0.08, False), (16, 0.005, True)])
def test_with_more_work_than_cores_it_waits_for_its_turn_like_all_others(
    running: int, runs: float, found: bool
) -> None:
    """Two cores and sixteen threads: an eighth is fair, and 0.08 of 0.58 is more; 0.005 is not."""
    waits = thread("ksoftirqd/1", [0.5] * 10, [runs] * 10)
    full = cores({cpu: [{"user": 0.98}] * 10 for cpu in (0, 1)}, every=1.0)
    queue = [read("procs_running", "node", running, second) for second in range(11)]
    assert bool(case([*waits, *full, *queue]).findings) is found


WAITING = [*[0.0] * 5, *[0.9] * 6, *[0.0] * 9]
HISTOGRAM = "2.00 s; 3.000000 s in all; one in 4 below 16384; from µs: 1:900 "


@pytest.mark.parametrize(
    ("core", "bins", "says"),
    [
        (3, "16384:20 524288:3", "timed by eBPF: NET_RX on cpu 3 waited up to 812 ms between raise and run, 46 times"),
    ],
)
def test_it_says_what_was_timed(core: int, bins: str, says: str) -> None:
    subject = f"softirq:NET_RX/{core}"
    waits = [read("softirq_wait_seconds", subject, 0.812, at, HISTOGRAM + bins) for at in (7.0, 9.0)]
    (found,) = case([*thread("ksoftirqd/3", WAITING, [0.01] * 20), *waits]).findings
    assert says in found.says and "ksoftirqd/3 waited 0.90 s of each second" in found.says
    assert waits[0] in found.evidence


@pytest.mark.parametrize(("core", "bins", "seen"), [(4, "524288:3", False), (3, "8192:3", True)])
def test_nothing_is_said_of_a_core_that_was_not_timed_or_of_short_waits(core: int, bins: str, seen: bool) -> None:
    subject = f"softirq:NET_RX/{core}"
    waits = [read("softirq_wait_seconds", subject, 0.009, at, HISTOGRAM + bins) for at in (7.0, 9.0)]
    (found,) = case([*thread("ksoftirqd/3", WAITING, [0.01] * 20), *waits]).findings
    assert "eBPF" not in found.says and (waits[0] in found.evidence) == seen


def test_it_says_why_nothing_was_timed() -> None:
    unseen = {"softirq_wait_seconds": "switched off by --no-bpf"}
    timeline = node(thread("ksoftirqd/3", WAITING, [0.01] * 20), unseen=unseen)
    (found,) = examine(timeline, signs={"starved_softirq": starved_softirq}, laws={}).findings
    assert "eBPF" not in found.says
    assert "switched off by --no-bpf" in [it.text for it in found.evidence]
