"""saturated_core: names the core, the mode and what the average hid; silent about a program's own work."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.nodes import cores, node

from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import saturated_core

IDLE: Mapping[str, float] = {}
SYSTEM = {"system": 0.97, "user": 0.03}
SOFTIRQ = {"softirq": 0.8, "irq": 0.1, "system": 0.1}
USER = {"user": 0.98, "system": 0.02}


def case(spent: Mapping[int, list[Mapping[str, float]]]) -> Case:
    return examine(node(cores(spent)), signs={"saturated_core": saturated_core}, laws={})


def test_a_core_full_of_system_time_is_named_and_so_is_the_average_that_hid_it() -> None:
    quiet = {cpu: [IDLE] * 16 for cpu in range(7)}
    (found,) = case({**quiet, 7: [*[IDLE] * 4, *[SYSTEM] * 8, *[IDLE] * 4]}).findings
    assert found.subject == "cpu:7"
    assert found.says.startswith("was 97 % busy in the kernel for 2.0 s (97 % system, ")
    assert "average of 12 % busy" in found.says
    assert (found.span.end - found.span.start) == pytest.approx(2.0)
    figures = {reading.what: reading.value for reading in found.evidence}
    assert figures["cpu_kernel_ratio"] == pytest.approx(0.97, abs=1e-3)
    assert figures["cpu_busy_ratio"] == pytest.approx(1 / 8, abs=1e-3)


def test_softirq_is_distinguished_from_system() -> None:
    (found,) = case({0: [SOFTIRQ] * 8, 1: [IDLE] * 8}).findings
    assert "90 % softirq and irq" in found.says


def test_two_spells_are_two_findings_but_one_coarse_look_does_not_split_a_spell() -> None:
    busy, dip = [SYSTEM] * 6, [{"system": 0.85}]
    assert len(case({0: [*busy, *[IDLE] * 4, *busy]}).findings) == 2
    assert len(case({0: [*busy, *dip, *busy]}).findings) == 1


def test_a_program_s_own_work_is_not_starvation() -> None:
    result = case({0: [USER] * 20, 1: [IDLE] * 20})
    assert not result.findings
    assert (
        result.verdicts[0].state == "clear" and "user 98 %" in result.verdicts[0].says and result.verdicts[0].evidence
    )


@pytest.mark.parametrize(
    "looks",
    [[SYSTEM] * 3, [{"iowait": 1.0}] * 20, [{"steal": 0.9, "system": 0.1}] * 20, [{"system": 0.6, "user": 0.4}] * 20],
    ids=["a short burst", "waiting for a disk", "taken by the hypervisor", "mixed work"],
)
def test_silent(looks: list[Mapping[str, float]]) -> None:
    assert not case({0: looks, 1: [IDLE] * len(looks)}).findings


def test_time_stolen_is_not_counted_against_the_core() -> None:
    (found,) = case({0: [{"steal": 0.3, "system": 0.68, "user": 0.02}] * 12}).findings
    assert "97 % system" in found.says


def test_one_look_is_blind() -> None:
    verdict = case({0: []}).verdicts[0]
    assert verdict.state == "blind" and "only one sample" in verdict.says


def test_missing_modes_are_blind_not_clear() -> None:
    partial = [reading for reading in cores({0: [SYSTEM] * 8}) if "softirq" not in reading.what]
    timeline = node(partial, unseen={})
    assert examine(timeline, signs={"saturated_core": saturated_core}, laws={}).verdicts[0].state == "blind"
