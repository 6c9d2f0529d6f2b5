"""conntrack_full: by the table's own count, by the kernel's complaint, and by both as one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import conntrack_full

FULL = "nf_conntrack: nf_conntrack: table full, dropping packet"


def table(*entries: float, limit: float = 1000.0, drops: tuple[float, ...] = ()) -> list[Reading]:
    found = []
    for place, value in enumerate(entries):
        found.append(read("conntrack_entries", "node", value, at=place * 5.0))
        found.append(read("conntrack_limit", "node", limit, at=place * 5.0))
    return found + [read("conntrack_drops_total", "node", it, at=place * 5.0) for place, it in enumerate(drops)]


def log(*lines: tuple[float, str]) -> list[Reading]:
    return [read("kernel_log", "node", 4, at=at, text=text) for at, text in lines]


def case(readings: Iterable[Reading], unseen: dict[str, str] | None = None) -> Case:
    return examine(node(readings, unseen=unseen), signs={"conntrack_full": conntrack_full}, laws={})


def test_a_table_that_fills_up() -> None:
    (found,) = case(table(300, 950, 1000, 990, 400, drops=(7, 7, 30, 30, 30))).findings
    assert found.subject == "node" and (found.span.start - T0, found.span.end - T0) == (5.0, 20.0)
    assert found.says == "tracked 1,000 of at most 1,000 connections; 23 packets dropped"
    assert [it.value for it in found.evidence] == [1000, 1000, 7, 30]


def test_the_log_and_the_table_are_one_finding() -> None:
    (found,) = case([*table(1000, 1000), *log((1.0, FULL), (6.0, FULL))]).findings
    assert "tracked 1,000 of at most 1,000 connections; the kernel logged 2 times that the table is full" in found.says
    assert FULL in [it.text for it in found.evidence]


def test_the_log_alone() -> None:
    first, second = case(log((-300.0, FULL), (-290.0, FULL), (0.0, FULL))).findings
    assert first.says == (
        "filled its connection table; the kernel logged 2 times that the table is full and packets are dropped"
    )
    assert first.span.start == T0 - 300.0 and second.span.start == T0
    # It was full before we counted, and is no more.
    (past,) = case([*log((-300.0, FULL)), *table(10, 10)]).findings
    assert "10 of" not in past.says


def test_a_namespace_whose_table_we_do_not_see() -> None:
    pod = "nf_conntrack: nf_conntrack: table full in netns 4026532281, dropping packet"
    (found,) = case([*log((1.0, pod)), *table(10, 10)]).findings
    assert found.subject == "netns:4026532281" and "10 of" not in found.says


@pytest.mark.parametrize(
    "readings",
    [
        table(10, 900, 10),
        table(10, 10, drops=(0, 5)),
        table(10**9, 10**9, limit=0),  # nought is no limit
        log((0.0, "nf_conntrack: default automatic helper assignment has been turned off")),
    ],
    ids=["busy", "drops for other reasons", "no limit", "an ordinary line"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_blind() -> None:
    nothing = {"kernel_log": "operation not permitted", "conntrack_entries": "no such file or directory"}
    assert case([], unseen=nothing).verdicts[0].state == "blind"
