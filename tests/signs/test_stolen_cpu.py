"""stolen_cpu: a core that is kept, or all of them, is told; a neighbour's burst is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.nodes import cores, node

from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import stolen_cpu

IDLE: Mapping[str, float] = {}
KEPT = {"steal": 0.4, "user": 0.6}


def case(spent: Mapping[int, list[Mapping[str, float]]]) -> Case:
    return examine(node(cores(spent)), signs={"stolen_cpu": stolen_cpu}, laws={})


def test_one_core_is_named() -> None:
    (found,) = case({0: [IDLE] * 20, 1: [*[IDLE] * 4, *[KEPT] * 12, *[IDLE] * 4]}).findings
    assert found.subject == "cpu:1" and found.says == "had 40 % CPU steal for 3.0 s"
    assert found.evidence[0].what == "cpu_steal_ratio" and found.evidence[0].source.startswith("/proc/")


def test_all_cores_at_once_are_the_node() -> None:
    (found,) = case({0: [KEPT] * 20, 1: [KEPT] * 20}).findings
    assert found.subject == "node" and "40 % CPU steal on every core" in found.says


def test_cores_kept_one_after_the_other_are_each_named() -> None:
    found = case({0: [*[KEPT] * 10, *[IDLE] * 20], 1: [*[IDLE] * 20, *[KEPT] * 10]}).findings
    assert [it.subject for it in found] == ["cpu:0", "cpu:1"]


@pytest.mark.parametrize(
    "looks",
    [[{"steal": 0.05, "user": 0.9}] * 20, [*[KEPT] * 4, *[IDLE] * 16], [IDLE] * 20],
    ids=["little", "short", "none"],
)
def test_silent(looks: list[Mapping[str, float]]) -> None:
    result = case({0: looks, 1: looks})
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence
