"""cgroup_walker: who walks through cgroups is named by the stacks; who only reads a little is not."""

from __future__ import annotations

import pytest
from tests.core.test_samples import PRINT, SPIN, WALK
from tests.nodes import Sampled, node, read

from zombiescope.core import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import cgroup_walker


def samples(
    who: str, stack: str, share: float, *, cpu: int = 1, start: float = 0.0, end: float = 60.0
) -> list[Sampled]:
    every = 1 / (100 * share)
    return [(start + place * every, cpu, who, stack) for place in range(int((end - start) / every))]


def case(*taken: list[Sampled]) -> Case:
    return examine(
        node([], samples=[it for part in taken for it in part]), signs={"cgroup_walker": cgroup_walker}, laws={}
    )


IDLE = samples("python[9]", SPIN, 0.5, cpu=0)


def test_a_walker_is_named_with_what_its_walk_is_made_of() -> None:
    (found,) = case(IDLE, samples("kubelet[7]", WALK, 0.15), samples("kubelet[7]", PRINT, 0.05)).findings
    assert found.subject == "process:kubelet[7]"
    assert "walked cgroups for 12.0 s of 60 s (75 % of it visiting" in found.says
    assert "mostly in css_rstat_flush on cpu 1" in found.says
    figures = {it.what: it for it in found.evidence}
    assert figures["walk_sampled_seconds"].value == pytest.approx(12, rel=0.01)
    assert figures["visit_sampled_seconds"].value == pytest.approx(9, rel=0.01)
    assert "memory_stat_show;css_rstat_flush" in figures["visit_sampled_seconds"].text


def test_one_long_walk_in_a_quiet_hour_is_found() -> None:
    (found,) = case(IDLE, samples("kubelet[7]", WALK, 1.0, start=20, end=24)).findings
    assert "using up to 100 % of a core" in found.says and found.span.seconds == pytest.approx(4, abs=0.1)


def test_the_kernel_s_own_workers_are_one_walker() -> None:
    flush = "kthread;worker_thread;process_one_work;flush_memcg_stats_dwork;css_rstat_flush"
    (found,) = case(IDLE, samples("kworker/1:0[11]", flush, 0.1), samples("kworker/u4:2[12]", flush, 0.1)).findings
    assert found.subject == "process:kworker (flush_memcg_stats_dwork)"
    assert "walked cgroups for 12.0 s" in found.says


def test_two_walkers_are_two_findings_the_busier_first() -> None:
    found = case(samples("cadvisor[8]", PRINT, 0.1), samples("kubelet[7]", WALK, 0.3)).findings
    assert [it.subject for it in found] == ["process:kubelet[7]", "process:cadvisor[8]"]


def test_a_gap_counts_for_who_ends_it() -> None:
    taken = [(1 + place * 5.0, 1, "kubelet[7]", WALK) for place in range(12)]
    gaps = [read("core_gap_seconds", "cpu:1", 0.6, at - 0.6) for at, *_ in taken]
    timeline = node(gaps, samples=[*IDLE, *taken])
    (found,) = examine(timeline, signs={"cgroup_walker": cgroup_walker}, laws={}).findings
    assert "walked cgroups for 7.1 s" in found.says


@pytest.mark.parametrize(
    "taken",
    [
        samples("kubelet[7]", WALK, 0.01),
        samples("python[9]", SPIN, 1.0),
        samples("kubelet[7]", WALK, 0.3, start=10, end=10.3),
        samples("dcgm-exporter[8]", "main;openat;path_openat;kernfs_iop_lookup", 0.5),
    ],
    ids=["an ordinary kubelet", "a program's own work", "one short look", "an exporter that lists sysfs"],
)
def test_silent(taken: list[Sampled]) -> None:
    result = case(IDLE, taken)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_without_stacks_it_is_blind_and_says_how_to_see() -> None:
    verdict = examine(node([]), signs={"cgroup_walker": cgroup_walker}, laws={}).verdicts[0]
    assert verdict.state == "blind" and "nothing looked for samples_total" in verdict.says


def test_hidden_symbols_are_blind() -> None:
    timeline = node([read("samples_total", "node", it, it) for it in (1, 2)], unseen={"kernel_symbols": "hidden"})
    verdict = examine(timeline, signs={"cgroup_walker": cgroup_walker}, laws={}).verdicts[0]
    assert verdict.state == "blind" and "hidden" in verdict.says
