"""blocked_tasks: one for long, a pile for a while, or the kernel's own complaint; ordinary disk work is silent."""

from __future__ import annotations

import pytest
from tests.nodes import node, read

from zombiescope.core.model import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import blocked_tasks

HUNG = "INFO: task jbd2/vda1-8:321 blocked for more than 120 seconds."


def case(readings: list[Reading]) -> Case:
    looked = [read("blocked_processes", "node", 1, 10.0)]
    return examine(node([*readings, *looked]), signs={"blocked_tasks": blocked_tasks}, laws={})


def blocked(pid: int, *seconds: float, where: str = "rpc_wait_bit_killable") -> list[Reading]:
    name = f"process:nfs\x07d[{pid}]"
    return [read("process_blocked_seconds", name, value, 5.0 * place, where) for place, value in enumerate(seconds, 1)]


def test_one_that_is_blocked_for_long() -> None:
    (found,) = case(blocked(7, 5, 10)).findings
    assert found.subject == "process:nfs\x07d[7]" and found.span.seconds == 10
    assert found.says == "is blocked in rpc_wait_bit_killable and has not run for 10.0 s"
    assert [it.what for it in found.evidence] == ["process_blocked_seconds", "blocked_processes"]


def test_a_pile_is_the_nodes_and_names_some() -> None:
    (found,) = case([it for pid in range(1, 8) for it in blocked(pid, 5)]).findings
    assert found.subject == "node"
    assert found.says.startswith("has 7 processes blocked in rpc_wait_bit_killable that have not run for up to 5.0 s: ")
    assert "nfs\\x07d[1]" in found.says


def test_the_kernels_own_complaint() -> None:
    (found,) = case([read("kernel_log", "node", 4, 200.0, HUNG)]).findings
    assert (found.subject, found.span.seconds) == ("process:jbd2/vda1-8[321]", 120)
    assert found.evidence[0].text == HUNG
    counted = [read("hung_tasks_total", "node", value, at) for value, at in ((3, 0.0), (5, 30.0))]
    (found,) = case([*counted, read("kernel_log", "node", 6, 1.0, "quiet")]).findings
    assert found.says == "has 2 more hung tasks by the kernel's count"


@pytest.mark.parametrize(
    "readings",
    [blocked(7, 5, 0), blocked(7, 0) + blocked(8, 5), [read("kernel_log", "node", 6, 1.0, "eth0: link up")]],
    ids=["one for a while", "two for a while", "a quiet log"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence
