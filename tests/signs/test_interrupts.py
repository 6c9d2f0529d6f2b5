"""irq_pile_up and softirq_storm: one core with all the packets is found; loopback and short bursts are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.nodes import Sampled, cores, node, read
from tests.signs.test_direct_reclaim import counter

from zombiescope.core import Case, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import irq_pile_up, softirq_storm

FLOOD: Mapping[str, float] = {"softirq": 0.9, "irq": 0.05, "system": 0.05}
SENDER: Mapping[str, float] = {"system": 0.3}
LOOPBACK: Mapping[str, float] = {"system": 0.6, "softirq": 0.34, "user": 0.06}
BUSY: Mapping[str, float] = {"user": 0.95}
RX = "asm_sysvec;handle_softirqs;net_rx_action;process_backlog;udp_rcv"
TIMERS = "asm_sysvec;handle_softirqs;run_timer_softirq;call_timer_fn"


def packets(*rates: float) -> list[Reading]:
    return [
        it
        for cpu, rate in enumerate(rates)
        for what, times in (("softnet_processed_total", rate), ("softirqs_net_rx_total", rate / 60))
        for it in counter(what, [times] * 8, f"cpu:{cpu}")
    ] + counter("softirqs_timer_total", [250] * 8, "cpu:1")


def queues(*served_by: int) -> list[Reading]:
    return [
        it
        for irq, cpu in enumerate(served_by, 40)
        for it in (
            read("nic_irq_cpu", f"irq:{irq}", cpu, 0.0, f"eth0-Tx-Rx-{irq - 40}"),
            *counter("nic_interrupts_total", [500, 500], f"irq:{irq}", every=4.0),
        )
    ]


def recording(
    spent: Mapping[int, Mapping[str, float]], rates: tuple[float, ...], more: list[Reading], samples: list[Sampled]
) -> Timeline:
    readings = cores({cpu: [shares] * 32 for cpu, shares in spent.items()})
    return node([*readings, *packets(*rates), *more], samples=samples)


def case(
    spent: Mapping[int, Mapping[str, float]],
    rates: tuple[float, ...],
    more: list[Reading] | None = None,
    samples: list[Sampled] | None = None,
) -> Case:
    timeline = recording(spent, rates, more or [], samples or [])
    return examine(timeline, signs={"irq_pile_up": irq_pile_up, "softirq_storm": softirq_storm}, laws={})


def test_all_queues_on_one_core() -> None:
    pile, storm = case({0: SENDER, 1: FLOOD}, (200, 21_000), queues(1, 1, 1)).findings
    assert pile.subject == storm.subject == "cpu:1"
    assert pile.says.startswith("spent 95 % of its time") and "21,000 of the node's 21,200 packets" in pile.says
    assert (
        "other cores were 70 % idle" in pile.says
        and "eth0-Tx-Rx-0, eth0-Tx-Rx-1, eth0-Tx-Rx-2, 1,500 interr" in pile.says
    )
    assert {"irq:40", "irq:41", "irq:42"} < {it.subject for it in pile.evidence}
    assert "spent 90 % of its time in softirqs for 8.0 s: NET_RX 350 a second, TIMER 250 a second" in storm.says


def test_steered_packets_have_no_queue() -> None:
    pile = case({0: SENDER, 1: FLOOD}, (0, 21_000), queues(0, 0)).findings[0]
    assert "it serves no NIC queue" in pile.says


@pytest.mark.parametrize(("mode", "found"), [("nice", True), ("user", False)])
def test_work_of_low_priority_gives_way(mode: str, found: bool) -> None:
    """A core that is full of it has room for packets; one that is full of other work has none."""
    result = case({0: {"system": 0.3, mode: 0.6}, 1: FLOOD}, (200, 21_000))
    piles = [it.says for it in result.findings if it.sign == "irq_pile_up"]
    assert bool(piles) == found and all("10 % idle and 60 % at work of low priority" in it for it in piles)


@pytest.mark.parametrize(
    ("softirq", "run", "delay", "found"),
    [(0.4, 0.3, 0.7, True), (0.4, 0.3, 0.4, False), (0.1, 0.1, 0.9, False), (0.4, 0.4, 0.0, False)],
    ids=["never done", "now and then", "starved", "done in time"],
)
def test_beside_other_work_ksoftirqd_must_have_packets_at_all_times(
    softirq: float, run: float, delay: float, found: bool
) -> None:
    """It shares the core with a job: however many packets come, it gets no more than its part."""
    waits = [
        it
        for what, rate in (("thread_run_seconds_total", run), ("thread_run_delay_seconds_total", delay))
        for it in counter(what, [rate] * 8, "thread:ksoftirqd/1")
    ]
    result = case({0: SENDER, 1: {"softirq": softirq, "user": 1 - softirq}}, (200, 21_000), waits)
    assert {it.sign for it in result.findings} == ({"irq_pile_up", "softirq_storm"} if found else set())
    for it in result.findings:
        assert "spent 40 % of its time" in it.says and "while ksoftirqd/1 waited for it 70 % of the time" in it.says
        assert ("run_delay_ratio", "thread:ksoftirqd/1", 0.7) in {(r.what, r.subject, r.value) for r in it.evidence}


SENT = "main;sendto;ip_finish_output2;__local_bh_enable_ip;do_softirq;handle_softirqs;net_rx_action;process_backlog"


@pytest.mark.parametrize(("share", "culprit"), [(8, "process:flood[7]"), (2, "")], ids=["most", "some"])
def test_who_sends_to_this_node_is_named(share: int, culprit: str) -> None:
    """A softirq that interrupted somebody is not his; one at the end of his own call is."""
    caught: list[Sampled] = [
        (it / 100, 1, "flood[7]" if it % 10 < share else "victim[9]", SENT if it % 10 < share else RX)
        for it in range(800)
    ]
    (storm,) = [it for it in case({0: {}, 1: FLOOD}, (0, 0), samples=caught).findings if it.sign == "softirq_storm"]
    assert storm.culprit == culprit and ("caused by flood[7]" in storm.says) == bool(culprit)


def test_stacks_tell_the_kind_better_than_counts() -> None:
    caught = [(place / 100, 1, "ksoftirqd/1[22]", TIMERS if place % 10 else RX) for place in range(800)]
    (storm,) = (it for it in case({0: SENDER, 1: FLOOD}, (0, 21_000), samples=caught).findings if "storm" in it.sign)
    assert "TIMER in 720 of 800 stacks, 250 a second" in storm.says
    assert "run_timer_softirq" in {it.what: it.text for it in storm.evidence}["sampled_seconds"]


@pytest.mark.parametrize(
    ("spent", "rates"),
    [
        ({0: LOOPBACK, 1: SENDER}, (42_000, 15_000)),
        ({0: {"softirq": 0.1}, 1: {"softirq": 0.5, "user": 0.2}}, (3_000, 80_000)),
    ],
    ids=["TCP over loopback", "a busy gateway"],
)
def test_neither(spent: Mapping[int, Mapping[str, float]], rates: tuple[float, ...]) -> None:
    result = case(spent, rates)
    assert not result.findings and {it.state for it in result.verdicts} == {"clear"}
    assert all(it.evidence and "had most" in it.says for it in result.verdicts)


@pytest.mark.parametrize(
    ("spent", "rates"),
    [
        ({0: FLOOD, 1: FLOOD}, (20_000, 21_000)),
        ({0: BUSY, 1: FLOOD}, (0, 21_000)),
        ({0: SENDER, 1: FLOOD}, (0, 50)),
        ({1: FLOOD}, (0, 21_000)),
    ],
    ids=["work that is shared", "nowhere to go", "timers, not packets", "a machine of one core"],
)
def test_a_storm_that_is_no_pile_up(spent: Mapping[int, Mapping[str, float]], rates: tuple[float, ...]) -> None:
    assert {it.sign for it in case(spent, rates).findings} == {"softirq_storm"}


def test_a_short_burst() -> None:
    looks = [FLOOD] * 8 + [SENDER] * 24
    timeline = node([*cores({0: [SENDER] * 32, 1: looks}), *packets(0, 21_000)])
    assert not examine(timeline, signs={"irq_pile_up": irq_pile_up, "softirq_storm": softirq_storm}, laws={}).findings


def test_a_storm_says_for_how_long_its_softirqs_ran() -> None:
    text = "2.00 s; 1.700000 s in all; one in 32 below 16384; from µs: 16:100000 8192:9"
    ran = [read("softirq_run_seconds", "softirq:NET_RX/1", 0.012, at, text) for at in (2.0, 4.0)]
    result = case({1: FLOOD, 0: SENDER}, (200, 21000), ran)
    (storm,) = [it for it in result.findings if it.sign == "softirq_storm"]
    assert "; timed by eBPF: NET_RX ran 0.85 s of each second, up to 12.0 ms at once" in storm.says
    assert ran[0] in storm.evidence
