"""page_fault_storm: faults that are the node's work are found; a compiler's and a shell's are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.nodes import Sampled, cores, node
from tests.signs.test_direct_reclaim import counter, waiting

from zombiescope.core import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import page_fault_storm


def case(
    faults: float,
    spent: Mapping[str, float],
    *,
    majors: float = 0.0,
    forks: float = 0.0,
    waits: float = 0.0,
    samples: Sequence[Sampled] = (),
) -> Case:
    readings = [
        *cores({cpu: [spent] * 8 for cpu in range(2)}, every=1.0),
        *counter("vmstat_pgfault_total", [faults] * 8),
        *counter("vmstat_pgmajfault_total", [majors] * 8),
        *counter("forks_total", [forks] * 8),
        *counter("process_system_seconds_total", [0.9], "process:leaky[7]", every=8.0),
        *counter("process_system_seconds_total", [0.1], "process:innocent[8]", every=8.0),
        *waiting(*[waits] * 8),
    ]
    return examine(node(readings, samples=samples), signs={"page_fault_storm": page_fault_storm}, laws={})


def test_a_storm() -> None:
    (found,) = case(946_000, {"system": 0.9, "user": 0.1}).findings
    assert found.subject == "node"
    assert (
        "had 946,000 page faults a second for 8.0 s: 1.8 cores' worth" in found.says and "1.9 µs for each" in found.says
    )
    assert "most kernel time: leaky[7]" in found.says
    assert {it.what for it in found.evidence} == {
        "vmstat_pgfault_per_second",
        "kernel_cores",
        "process_system_seconds_per_second",
    }


def test_stacks_show_better_than_kernel_time_whose_faults_they_are() -> None:
    faults = "main;touch;asm_exc_page_fault;exc_page_fault;handle_mm_fault"
    taken = [(at / 100, 0, "toucher[9]" if at % 4 else "other[8]", faults) for at in range(800)]
    (found,) = case(946_000, {"system": 0.9, "user": 0.1}, samples=taken).findings
    assert found.culprit == "process:toucher[9]" and found.says.endswith("; most are of toucher[9]")
    assert case(946_000, {"system": 0.9, "user": 0.1}).findings[0].culprit == "process:leaky[7]"


def test_thrashing() -> None:
    (found,) = case(5_000, {"system": 0.1}, majors=2_000, waits=0.4).findings
    assert "2,000 major faults a second" in found.says and "40 % of the time" in found.says


@pytest.mark.parametrize(
    ("faults", "spent", "forks", "majors"),
    [
        (78_000, {"user": 0.7, "system": 0.3}, 10, 60),
        (175_000, {"user": 0.4, "system": 0.6}, 700, 0),
        (30_000, {"system": 0.85, "user": 0.1}, 0, 0),
        (40_000, {"system": 0.2}, 0, 0),
        (20_000, {"system": 0.3, "user": 0.3}, 0, 900),
    ],
    ids=[
        "compiling",
        "a shell starts programs",
        "TCP over loopback",
        "hardly anything",
        "a cold start reads its files",
    ],
)
def test_silent(faults: float, spent: Mapping[str, float], forks: float, majors: float) -> None:
    result = case(faults, spent, forks=forks, majors=majors)
    assert not result.findings and result.verdicts[0].state == "clear"
    assert f"{faults:,.0f} page faults a second" in result.verdicts[0].says
