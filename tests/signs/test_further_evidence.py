"""What probes read besides is said where it explains a finding: drops, swap, pressure, the kernel's own lines."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import Sampled, cores, node, read
from tests.signs.test_blocked_tasks import blocked
from tests.signs.test_direct_reclaim import busy, counter, waiting
from tests.signs.test_driver_reset import EPISODE, counted, log
from tests.signs.test_interrupts import FLOOD, packets
from tests.signs.test_kernel_tables import slabs
from tests.signs.test_starved_softirq import thread
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Finding, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import (
    blocked_tasks,
    direct_reclaim,
    driver_reset,
    irq_pile_up,
    page_fault_storm,
    saturated_core,
    slab_bloat,
    softirq_storm,
    starved_softirq,
    zombie_cgroups,
)

HOG = "workqueue: css_release_work_fn hogged CPU for >10000us 35 times, consider switching to WQ_UNBOUND"
FULL = "mkdir /sys/fs/cgroup/memory/docker/406cfca0c0a5: no space left on device"
STUCK = 'kubelet[1373]: "Failed to delete cgroup paths" cgroupName=[kubepods besteffort pod482]'


def found(sign: ModuleType, readings: list[Reading], samples: list[Sampled] | None = None) -> Finding:
    name = sign.__name__.rpartition(".")[2]
    (one,) = examine(node(readings, samples=samples or []), signs={name: sign}, laws={}).findings
    return one


def figures(finding: Finding) -> dict[str, float]:
    return {it.what: it.value for it in finding.evidence}


def test_blocked_tasks_say_how_much_was_waited_for_disks() -> None:
    it = found(blocked_tasks, [*blocked(7, 5, 10), *counter("pressure_io_waiting_seconds_total", [0.8] * 10)])
    assert it.says.endswith("; tasks waited for I/O 80 % of that time")
    assert figures(it)["pressure_io_waiting_ratio"] == pytest.approx(0.8)


@pytest.mark.parametrize("sign", [softirq_storm, irq_pile_up])
def test_the_pressure_of_interrupts(sign: ModuleType) -> None:
    spent = cores({0: [{}] * 32, 1: [FLOOD] * 32})
    it = found(sign, [*spent, *packets(10, 9_000), *counter("pressure_irq_stalled_seconds_total", [0.3] * 8)])
    assert figures(it)["pressure_irq_stalled_ratio"] == pytest.approx(0.3)


def test_packets_dropped_while_softirqs_starved_are_broken() -> None:
    lost = [read("softnet_dropped_total", "cpu:3", value, at) for at, value in ((0.0, 5.0), (9.0, 45.0))]
    it = found(starved_softirq, [*thread("ksoftirqd/3", [0.9] * 10, [0.0] * 10), *lost])
    assert it.harm.broken == (("drops", 40),)


def test_pages_that_came_back_from_swap_or_were_dropped_by_hand() -> None:
    readings = [
        *cores({0: [{"system": 0.1}] * 8}, every=1.0),
        *counter("vmstat_pgfault_total", [5_000] * 8),
        *counter("vmstat_pgmajfault_total", [2_000] * 8),
        *counter("vmstat_pswpin_total", [1_500] * 8),
        *waiting(*[0.4] * 8),
    ]
    assert found(page_fault_storm, readings).says.endswith("; 1,500 pages a second came back from swap")
    readings += [read("vmstat_drop_pagecache_total", "node", value, at) for at, value in ((0.0, 1.0), (4.0, 3.0))]
    assert found(page_fault_storm, readings).says.endswith("; the page cache was dropped by hand 2 times (drop_caches)")


def test_waiting_for_large_free_blocks_is_compaction() -> None:
    stalls = [*counter("vmstat_allocstall_total", [0] * 10), *counter("vmstat_pgscan_direct_total", [0] * 10)]
    compacted = counter("vmstat_compact_stall_total", [80] * 10)
    it = found(direct_reclaim, [*waiting(*[0.4] * 10), *busy(), *stalls, *compacted])
    assert it.says.startswith("moved pages 80 times a second to make large free blocks (direct compaction); ")
    assert it.harm.waited_cores == pytest.approx(0.8)


def test_a_large_node_that_streams_files_is_not_blamed_for_a_core_of_waiting() -> None:
    readings = [*waiting(*[0.005] * 10), *busy(192)]  # 0.96 cores' worth
    for what, rate in (("allocstall", 400.0), ("pgscan_direct", 900_000.0)):
        readings += counter(f"vmstat_{what}_total", [rate] * 10)
    case = examine(node(readings), signs={"direct_reclaim": direct_reclaim}, laws={})
    assert not case.findings and case.verdicts[0].state == "clear"


def test_an_allowance_that_was_exceeded_with_a_reset() -> None:
    it = found(driver_reset, [*log(EPISODE, begin=12.0), *counted("nic_allowance_exceeded_total", [7, 7, 900])])
    assert [(one.what, one.value) for one in it.evidence[-2:]] == [
        ("nic_allowance_exceeded_total", 7),
        ("nic_allowance_exceeded_total", 900),
    ]


def test_a_worker_that_the_kernel_called_a_hog() -> None:
    full = cores({1: [{"system": 0.98}] * 8, 0: [{}] * 8}, every=1.0)
    stack = "kthread;worker_thread;process_one_work;css_release_work_fn"
    samples = [(place / 50, 1, "kworker/1:2[44]", stack) for place in range(400)]
    it = found(saturated_core, [*full, read("kernel_log", "node", 6, 3.0, HOG)], samples)
    assert "in css_release_work_fn (which the kernel logged as a CPU hog)" in it.says
    assert HOG in [one.text for one in it.evidence]


def test_cgroups_that_were_refused_or_stayed() -> None:
    lines = [read("kernel_log", "node", 3, 2.0 + place, text) for place, text in enumerate((FULL, FULL, STUCK))]
    it = found(zombie_cgroups, [*v1([65_000.0] * 8), *lines])
    assert it.says.endswith("; 2 new cgroups were refused; 1 could not be removed")
    assert it.harm.broken == (("refused", 2),) and STUCK in [one.text for one in it.evidence]


def test_thousands_of_network_namespaces_are_said() -> None:
    it = found(slab_bloat, [*slabs(4.8e9), read("network_namespaces", "node", 4_000.0, 0.0)])
    assert it.says.endswith("; 4,000 network namespaces")
    assert "namespaces" not in found(slab_bloat, [*slabs(4.8e9), read("network_namespaces", "node", 250.0, 0.0)]).says
