"""A starved core resets the card whose queue it serves, and no other."""

from __future__ import annotations

import pytest
from tests.laws.chain import kinds, links
from tests.nodes import node, read
from tests.signs.test_starved_softirq import thread

from zombiescope.core import Reading

LAW = "starved_softirq_to_driver_reset"
ENA = (
    "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000000). Time since last napi 6200000 usec. "
    "napi scheduled: 1"
)
RESET = "ena 0000:00:05.0 eth0: Resetting the device"


def starved(cpu: int = 3) -> list[Reading]:
    return thread(f"ksoftirqd/{cpu}", [*[0.0] * 5, *[0.95] * 8, *[0.0] * 10], [0.0] * 23)


def log(*lines: str, at: float = 12.0) -> list[Reading]:
    return [read("kernel_log", "node", 3, at + place / 100, line) for place, line in enumerate(lines)]


def queue(core: int, name: str = "eth0-Tx-Rx-5") -> list[Reading]:
    others = [read("nic_irq_cpu", f"irq:{40 + it}", it, 0.0, f"eth0-Tx-Rx-{it}") for it in range(4) if it != core]
    return [read("nic_irq_cpu", "irq:33", core, 0.0, name), *others]


def test_the_queue_is_served_by_that_core_and_the_driver_says_it_waited() -> None:
    (link,) = links(node([*starved(), *log(ENA, RESET), *queue(3)]), LAW)
    assert kinds(link) == {"place", "mechanism", "order"}
    said = " | ".join(ground.says for ground in link.grounds)
    assert "cpu 3 serves queue 5 of eth0 (eth0-Tx-Rx-5)" in said
    assert "NAPI was due and did not run for 6.2 s" in said


def test_an_interrupt_on_another_core_gives_no_link() -> None:
    assert not links(node([*starved(), *log(ENA, RESET), *queue(2)]), LAW)


def test_the_driver_s_own_word_on_the_core_counts_more_than_the_map() -> None:
    line = (
        "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000000). usecs since napi 6200000. "
        "napi scheduled: 1. napi CPU: 3. msecs since interrupt: 6200"
    )
    (link,) = links(node([*starved(3), *log(line, RESET), *queue(2)]), LAW)
    assert "the driver names cpu 3" in link.grounds[0].says
    assert not links(node([*starved(2), *log(line, RESET), *queue(2)]), LAW)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("NETDEV WATCHDOG: eth0 (ena): transmit queue 5 timed out", "eth0-Tx-Rx-5"),
        (
            "mlx5_core 0000:41:00.0 eth0: TX timeout on queue: 5, SQ: 0x10, CQ: 0x2, SQ Cons: 0x1 SQ Prod: 0x2, "
            "usecs since last trans: 6000000",
            "mlx5_comp5@pci:0000:41:00.0 (eth0)",
        ),
    ],
    ids=["any driver", "mlx5"],
)
def test_other_drivers(line: str, name: str) -> None:
    (link,) = links(node([*starved(), *log(line), *queue(3, name)]), LAW)
    assert "place" in kinds(link)


def test_a_reset_long_after_is_another_story() -> None:
    assert not links(node([*starved(), *log(ENA, RESET, at=60.0), *queue(3)]), LAW)


@pytest.mark.parametrize(
    ("kind", "worst", "known"), [("NET_RX", 1.9, True), ("NET_RX", 0.6, False), ("RCU", 1.9, False)]
)
def test_packets_that_were_timed_while_they_waited_are_a_mechanism(kind: str, worst: float, known: bool) -> None:
    text = f"2.00 s; {worst:.6f} s in all; one in 4 below 16384; from µs: 524288:1"
    waits = [read("softirq_wait_seconds", f"softirq:{kind}/3", worst, 8.0, text)]
    found = links(node([*starved(), *waits, *log(ENA, RESET), *queue(3)]), LAW)
    says = [it.says for link in found for it in link.grounds if it.kind == "mechanism"]
    timed = f"timed by eBPF: NET_RX on cpu 3 waited up to {worst * 1e3:.0f} ms between raise and run"
    assert any(it.startswith(timed) for it in says) == known
