"""slow_stat_read and the law that ties it to the dead."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import zombie_cgroups_to_slow_stat_read as law
from zombiescope.signs import slow_stat_read, zombie_cgroups

FILE = "file:memory.numa_stat"


def case(cpu: float, clock: float, known: float) -> Case:
    timed = [read("stat_read_cpu_seconds", FILE, cpu, 0), read("stat_read_seconds", FILE, clock, 0)]
    signs = {"slow_stat_read": slow_stat_read, "zombie_cgroups": zombie_cgroups}
    return examine(node([*timed, *v1([known] * 3)]), signs=signs, laws={"zombie_cgroups_to_slow_stat_read": law})


def test_the_incident_s_read_is_found_and_explained() -> None:
    result = case(4.8, 4.9, 68_680)
    effect = next(finding for finding in result.findings if finding.sign == "slow_stat_read")
    assert "took 4800 ms of CPU time, 69.9 µs for each of 68,680 cgroups: it visits all" in effect.says
    assert {reading.what for reading in effect.evidence} == {
        "stat_read_cpu_seconds",
        "stat_read_seconds",
        "cgroups_known",
    }
    (link,) = result.links
    assert link.grounds[0].kind == "dose" and "69.9 µs for each of 68,680" in link.grounds[0].says


def test_a_quick_read_is_clear_whatever_the_count() -> None:
    verdicts = {verdict.sign: verdict for verdict in case(0.00003, 0.00004, 68_680).verdicts}
    assert verdicts["slow_stat_read"].state == "clear" and "0.03 ms" in verdicts["slow_stat_read"].says
    assert verdicts["zombie_cgroups"].state == "found"


def test_waiting_for_a_turn_on_a_busy_core_is_not_a_slow_read() -> None:
    assert not [it for it in case(0.001, 3.0, 250).findings if it.sign == "slow_stat_read"]


@pytest.mark.parametrize("cpu", [0.06])
def test_a_slow_read_with_few_dead_is_not_blamed_on_them(cpu: float) -> None:
    result = case(cpu, cpu, 250)
    assert [it.sign for it in result.findings] == ["slow_stat_read"] and not result.links
    assert "zombie_cgroups is clear" in result.unexplained[0].candidates[0].why_not
