"""Faults fill the core that stacks, or else the sum of its time, show them on."""

from __future__ import annotations

import pytest
from tests.laws.chain import kinds, links
from tests.nodes import Sampled, cores, node
from tests.signs.test_direct_reclaim import counter

from zombiescope.core import Reading

LAW = "page_fault_storm_to_saturated_core"
FAULT = "touch;asm_exc_page_fault;exc_page_fault;handle_mm_fault;clear_page"
CALL = "read;do_syscall_64;vfs_read;copy_to_user"


def storm(on_zero: float = 0.0, on_one: float = 0.97) -> list[Reading]:
    return [
        *cores({0: [{"system": on_zero}] * 10, 1: [{"system": on_one}] * 10}, every=1.0),
        *counter("vmstat_pgfault_total", [500_000] * 10),
        *counter("vmstat_pgmajfault_total", [0] * 10),
    ]


def caught(stack: str) -> list[Sampled]:
    return [(place / 100, 1, "touch[7]", stack) for place in range(1000)]


def test_seen_in_stacks() -> None:
    (link,) = links(node(storm(), samples=caught(FAULT)), LAW)
    assert (
        kinds(link) == {"mechanism"}
        and "seen in stacks: page faults are 100 % of what cpu 1 did" in link.grounds[0].says
    )


def test_without_stacks_the_sum_must_fit() -> None:
    (link,) = links(node(storm()), LAW)
    assert (
        kinds(link) == {"dose"}
        and "500,000 faults a second and 0.97 s of each in the kernel: 1.9 µs" in link.grounds[0].says
    )


@pytest.mark.parametrize("samples", [caught(CALL), []], ids=["its stacks are of something else", "most is elsewhere"])
def test_not_blamed(samples: list[Sampled]) -> None:
    readings = storm() if samples else storm(on_zero=1.0, on_one=0.95)
    assert "cpu:1" not in {link.effect.subject for link in links(node(readings, samples=samples), LAW)}
