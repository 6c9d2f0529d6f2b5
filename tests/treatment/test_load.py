"""Load is comparable where one measure that mattered before is at half or more after."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.nodes import cores, node, read

from zombiescope.core import Check, Reading
from zombiescope.treatment.load import ENOUGH, LITTLE_CORES, LITTLE_PACKETS, Load, comparable_load

SECONDS = 20


def busy(*shares: Mapping[str, float]) -> list[Reading]:
    return cores({core: [share] * SECONDS for core, share in enumerate(shares)}, every=1.0)


def packets(rate: float) -> list[Reading]:
    return [
        read("softnet_processed_total", f"cpu:{core}", rate / 2 * at, at)
        for core in (0, 1)
        for at in range(SECONDS + 1)
    ]


def process(share: float) -> list[Reading]:
    return [read("process_user_seconds_total", "process:hog[7]", share * at, at) for at in range(SECONDS + 1)]


def check(before: list[Reading], after: list[Reading], *faulty: str) -> Check:
    return comparable_load(node(before), node(after), faulty)


@pytest.mark.parametrize(
    ("before", "after", "faulty", "state"),
    [
        (busy({"user": 0.5}, {"system": 0.5}), busy({"user": 0.3}, {"softirq": 0.2}), (), "held"),
        (busy({"user": 0.5}, {"system": 0.5}), busy({"user": 0.2}, {"system": 0.2}), (), "blind"),
        (busy({"iowait": 0.9}, {"steal": 0.9}), busy({}, {}), (), "held"),  # neither is work
        (busy({"irq": 0.5}, {"nice": 0.5}), busy({}, {}), (), "blind"),
        (busy({"user": 0.1}, {}), busy({}, {}), (), "held"),  # nothing to do before either
        (busy({"system": 1.0}, {"user": 0.1}), busy({}, {"user": 0.1}), ("cpu:0",), "held"),  # the fault's own core
        (busy({"system": 1.0}, {"user": 0.1}), busy({}, {"user": 0.1}), (), "blind"),
        (busy({"user": 1.0}, {"user": 0.5}), busy({"user": 0.5}, {}), ("cpu:0", "cpu:1"), "blind"),
        ([*busy({"user": 0.8}, {"user": 0.5}), *process(0.8)], busy({"user": 0.5}, {}), ("process:hog[7]",), "held"),
        ([*busy({"user": 0.8}, {"user": 0.5}), *process(0.8)], busy({"user": 0.5}, {}), (), "blind"),
        (packets(1000.0), packets(500.0), (), "held"),
        (packets(1000.0), packets(490.0), (), "blind"),
        (packets(90.0), packets(1.0), (), "held"),
        ([], [], (), "blind"),
        (busy({"user": 0.5}, {}), [], (), "blind"),
    ],
)
def test_comparable(before: list[Reading], after: list[Reading], faulty: tuple[str, ...], state: str) -> None:
    found = check(before, after, *faulty)
    assert found.state == state, found.says


def test_the_figures_are_told() -> None:
    found = check([*busy({"user": 0.5}, {"system": 0.25}), *packets(1000)], [*busy({}, {}), *packets(10)], "cpu:1")
    assert found.says == (
        "less than half the load: cores busy beside the fault's: 0.50 before, 0.00 after; "
        "cores busy in programs: 0.50 before, 0.00 after; packets a second: 1,000 before, 10 after"
    )
    assert check([], []).says == "neither busy time nor packets were read twice"
    assert check(busy({"user": 0.5}), busy({"user": 0.5})).says.startswith("cores busy: 0.50 before, 0.50 after")


def test_the_edges() -> None:
    assert Load("x", 1.0, 1.0, ENOUGH).mattered and Load("x", 1.0, 1.0, ENOUGH).comparable
    assert not Load("x", 1.0, 0.99, 1.0).mattered and not Load("x", 1.0, 1.0, ENOUGH - 0.01).comparable
    assert (ENOUGH, LITTLE_CORES, LITTLE_PACKETS) == (0.5, 0.25, 100.0)
