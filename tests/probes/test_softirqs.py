"""softirqs: counts by kind and core, also where a core between is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import SOFTIRQS, damage_in, machine, told, unseen

from zombiescope.probes import softirqs
from zombiescope.probes.softirqs import GIVES, KINDS, parse

GAP = "                    CPU0       CPU2       \n      NET_RX:      43066     104508\n"


def test_parse() -> None:
    found = parse(SOFTIRQS)
    assert found["NET_RX"] == {0: 790, 1: 939}
    assert tuple(found) == KINDS


def test_columns_belong_to_the_cores_that_the_header_names() -> None:
    assert parse(GAP) == {"NET_RX": {0: 43066, 2: 104508}}


def test_the_old_name_of_irq_poll() -> None:
    assert parse("   CPU0\nBLOCK_IOPOLL:   5\n") == {"IRQ_POLL": {0: 5}}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("\n", 1),
        ("CPU0 CPUx\n", 1),
        ("CPU0 CPU1\nHI: 1\n", 2),
        ("CPU0\nHI: 1\nTIMER: 1 2\n", 3),
        ("CPU0\nHI: one\n", 2),
        ("CPU0\nHI 1\n", 2),
    ],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/softirqs", line)


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/softirqs": SOFTIRQS})
    seen = told(softirqs, host)
    assert seen["softirqs_block_total", "cpu:1"] == 14530
    assert len(seen) == len(GIVES) * 2
    assert unseen(softirqs, host) == {}


def test_a_kind_that_is_missing_is_not_seen(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/softirqs": GAP})
    assert told(softirqs, host) == {
        ("softirqs_net_rx_total", "cpu:0"): 43066,
        ("softirqs_net_rx_total", "cpu:2"): 104508,
    }
    assert unseen(softirqs, host)["softirqs_hi_total"] == "this kernel has no softirq HI"
    assert len(unseen(softirqs, host)) == len(GIVES) - 1
