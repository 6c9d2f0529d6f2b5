"""cpu_clocked_down: busy cores far below their nominal speed; idle ones, vector code and boosts are not that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of
from tests.nodes import cores, node, read

from zombiescope.core import Blind, Case, Reading, Unparsable, Unreadable
from zombiescope.diagnosis.examine import examine
from zombiescope.probes import cpu_clock
from zombiescope.signs import cpu_clocked_down

NOMINAL = 2.9e9


def clocks(hertz: float, *, heat: float = 0.0) -> list[Reading]:
    found = [read("cpu_clocks_known", "node", 2, 0.0)]
    for at in (0.0, 3.0, 6.0, 9.0):
        for cpu in ("cpu:0", "cpu:1"):
            found.append(read("cpu_clock_hertz", cpu, hertz, at))
            found.append(read("cpu_nominal_hertz", cpu, NOMINAL, at))
            found.append(read("cpu_heat_seconds_total", cpu, heat * at, at))
    return found


def busy(share: float) -> list[Reading]:
    return cores({cpu: [{"user": share}] * 40 for cpu in (0, 1)})


def case(*readings: Reading) -> Case:
    return examine(node(readings), signs={"cpu_clocked_down": cpu_clocked_down}, laws={})


def test_busy_cores_at_half_their_speed_by_a_power_limit() -> None:
    (found,) = case(*clocks(NOMINAL / 2), *busy(0.9)).root_causes
    assert found.says == (
        "ran 2 busy cores at 50 % of their nominal speed: no heat was counted, so a power limit or a setting holds them"
    )
    assert found.harm.waited_cores == pytest.approx(0.9, abs=0.05)


def test_heat_is_named_with_its_lines() -> None:
    line = "mce: CPU0: Core temperature is above threshold, cpu clock is throttled (total events = 23)"
    (found,) = case(*clocks(NOMINAL / 3, heat=0.8), *busy(1.0), read("kernel_log", "node", 4, 1.0, line)).root_causes
    assert "heat held them back up to 80 % of the time" in found.says and "the kernel logged 1" in found.says


@pytest.mark.parametrize(
    "readings",
    [[*clocks(0.8e9), *busy(0.05)], [*clocks(NOMINAL * 0.9), *busy(1.0)], [*clocks(3.6e9), *busy(1.0)]],
    ids=["idle", "vector code", "boost"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(*readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_one_slow_look_is_not_enough() -> None:
    few = [it for it in clocks(NOMINAL / 2) if it.at < clocks(1.0)[0].at + 4]
    assert not case(*few, *busy(0.9)).findings


def cpu(number: int, **files: str) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{number}/{name}": text for name, text in files.items()}


def test_the_files_of_intel_and_of_others(tmp_path: Path) -> None:
    intel = cpu(0, **{"cpufreq/scaling_cur_freq": "1200000\n", "cpufreq/base_frequency": "2900000\n"})
    intel |= cpu(0, **{"thermal_throttle/core_throttle_total_time_ms": "70\n"})
    intel |= cpu(0, **{"thermal_throttle/package_throttle_total_time_ms": "1500\n"})
    amd = cpu(1, **{"cpufreq/scaling_cur_freq": "<unknown>\n", "acpi_cppc/nominal_freq": "2450\n"})
    found = list(cpu_clock.read(node_of(tmp_path, {**intel, **amd})))
    known: dict[str, dict[str, float]] = {it.subject: {} for it in found}
    for it in found:
        known[it.subject] |= {it.what: it.value} if isinstance(it, Reading) else {}
    assert known["cpu:0"] == {"cpu_clock_hertz": 1.2e9, "cpu_nominal_hertz": 2.9e9, "cpu_heat_seconds_total": 1.5}
    assert known["cpu:1"] == {"cpu_nominal_hertz": 2.45e9} and known["node"] == {"cpu_clocks_known": 2}


def test_a_virtual_machine_says_that_its_host_knows_and_odd_files_are_said(tmp_path: Path) -> None:
    guest = list(cpu_clock.read(node_of(tmp_path / "a", cpu(0, online="1\n"))))
    assert [(it.what, it.value) for it in guest if isinstance(it, Reading)] == [("cpu_clocks_known", 0)]
    verdict = case(read("cpu_clocks_known", "node", 0, 0.0), *busy(1.0)).verdicts[0]
    assert verdict.state == "clear" and "ask its host" in verdict.says and verdict.evidence
    with pytest.raises(Unreadable):
        list(cpu_clock.read(node_of(tmp_path / "e", {"sys/devices/system/cpu/possible": "0-1\n"})))
    with pytest.raises(Unparsable):
        odd = cpu(0, **{"cpufreq/scaling_cur_freq": "fast\n"})
        list(cpu_clock.read(node_of(tmp_path / "b", odd)))
    some = cpu(0, **{"cpufreq/scaling_cur_freq": "1200000\n"})
    found = list(cpu_clock.read(node_of(tmp_path / "c", some)))
    assert {it.what for it in found if isinstance(it, Blind)} == {"cpu_nominal_hertz", "cpu_heat_seconds_total"}


def test_many_cores_take_turns(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for number in range(40):
        files |= cpu(number, **{"cpufreq/scaling_cur_freq": "1200000\n"})
    with cpu_clock.watch(node_of(tmp_path, files)) as look:
        first, second = ({it.subject for it in look() if it.what == "cpu_clock_hertz"} for _ in range(2))
    assert len(first) == cpu_clock.MOST and len(second) == 8 and not first & second
