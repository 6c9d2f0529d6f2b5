"""Packets that pile up storm on their core and drown it; a core that drowns in system calls is not their doing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.laws.chain import kinds, links
from tests.nodes import cores, node
from tests.signs.test_direct_reclaim import counter
from tests.signs.test_interrupts import FLOOD, RX, SENDER, TIMERS, packets, recording

from zombiescope.core.timeline import Timeline

CALLS: Mapping[str, float] = {"system": 0.97, "user": 0.02}


def one_core(stack: str = RX) -> Timeline:
    samples = [(place / 100, 1, "ksoftirqd/1[22]", stack) for place in range(800)]
    return recording({0: SENDER, 1: FLOOD}, (200, 21_000), [], samples)


def then(after: Mapping[str, float]) -> Timeline:
    """A flood on core 1 for five seconds, then core 0 does something else for five, another second later."""
    first, second = [SENDER] * 24, [after] * 20
    readings = cores({0: [*first, *second], 1: [*[FLOOD] * 20, *[SENDER] * 24]})
    return node([*readings, *packets(0, 21_000), *counter("softnet_processed_total", [0] * 11, "cpu:0")])


def test_a_storm_fills_its_core() -> None:
    (link,) = links(one_core(), "softirq_storm_to_saturated_core")
    assert kinds(link) == {"place", "dose"} and "softirqs are 90 % of its 100 %" in link.grounds[1].says


def test_a_pile_up_fills_its_core() -> None:
    (link,) = links(one_core(), "irq_pile_up_to_saturated_core")
    assert kinds(link) == {"place"} and "cpu 1 spent 95 %" in link.grounds[0].says


def test_a_pile_up_is_a_storm_of_packets() -> None:
    (link,) = links(one_core(), "irq_pile_up_to_softirq_storm")
    assert kinds(link) == {"place"} and "21,000 packets a second" in link.grounds[0].says


def test_a_storm_of_timers_is_not_the_packets_doing() -> None:
    assert not links(one_core(TIMERS), "irq_pile_up_to_softirq_storm")


@pytest.mark.parametrize("cause", ["softirq_storm", "irq_pile_up"])
def test_another_core_that_drowns_in_system_calls(cause: str) -> None:
    timeline = then(CALLS)
    found = links(timeline, f"{cause}_to_saturated_core")
    assert {link.effect.subject for link in found} == {"cpu:1"}
