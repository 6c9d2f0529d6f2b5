"""direct_reclaim: waiting for memory is found on the node and in a cgroup; hits without waiting are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.nodes import cores, node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import direct_reclaim

POD, OTHER = "cgroup:/kubepods/pod1", "cgroup:/kubepods/pod2"
BUSY = {"user": 0.9, "system": 0.1}


def counter(what: str, rates: Sequence[float], subject: str = "node", every: float = 1.0) -> list[Reading]:
    """A counter that rises so fast in each interval."""
    readings, total = [read(what, subject, 1000.0, 0.0)], 1000.0
    for place, rate in enumerate(rates, 1):
        total += rate * every
        readings.append(read(what, subject, total, place * every))
    return readings


def waiting(*shares: float) -> list[Reading]:
    return counter("pressure_memory_waiting_seconds_total", shares)


def hits(rate: float, subject: str = POD) -> list[Reading]:
    return [
        *counter("cgroup_limit_hits_total", [rate] * 2, subject, every=5.0),
        read("cgroup_memory_usage_bytes", subject, 67_100_000, 0.0),
        read("cgroup_memory_limit_bytes", subject, 67_108_864, 0.0),
    ]


def busy(cpus: int = 2) -> list[Reading]:
    return cores({cpu: [BUSY] * 10 for cpu in range(cpus)}, every=1.0)


def globally(stalls: float, scans: float) -> list[Reading]:
    return [*counter("vmstat_allocstall_total", [stalls] * 10), *counter("vmstat_pgscan_direct_total", [scans] * 10)]


def case(*readings: list[Reading], unseen: dict[str, str] | None = None) -> Case:
    timeline = node([it for part in readings for it in part], unseen=unseen)
    return examine(timeline, signs={"direct_reclaim": direct_reclaim}, laws={})


def test_a_cgroup_at_its_limit_whose_tasks_wait() -> None:
    (found,) = case(waiting(*[0.0] * 2, *[0.4] * 8), hits(8000), busy(), globally(0, 0)).findings
    assert found.subject == POD and found.span.seconds == pytest.approx(8)
    assert (
        "waited for memory 0.80 s of each second for 8.0 s" in found.says
        and "limit of 67.1 MB 8,000 times" in found.says
    )
    figures = {it.what: it.value for it in found.evidence}
    assert figures["memory_stalled_cores"] == pytest.approx(0.8) and figures["cgroup_limit_hits_per_second"] == 8000
    assert figures["cgroup_memory_limit_bytes"] == 67_108_864


def test_the_average_over_many_busy_cores_does_not_hide_it() -> None:
    (found,) = case(waiting(*[0.01] * 10), hits(8000), busy(96), globally(0, 0)).findings
    assert found.subject == POD and "0.96 s of each second" in found.says


def test_the_node_itself() -> None:
    (found,) = case(waiting(*[0.4] * 10), busy(), globally(50, 12_000)).findings
    assert found.subject == "node" and "50 times a second" in found.says and "12,000 pages scanned" in found.says


def test_of_two_at_their_limits_v1_does_not_tell_which_one_waits() -> None:
    found = case(waiting(*[0.4] * 10), hits(8000), hits(5000, OTHER), hits(20, "cgroup:/few"), busy()).findings
    assert {it.subject for it in found} == {POD, OTHER}
    assert all("3 cgroups hit their limits" in it.says for it in found)


def test_v2_tells_who_waits() -> None:
    own = counter("cgroup_memory_stall_seconds_total", [0.6, 0.6], POD, every=5.0)
    calm = counter("cgroup_memory_stall_seconds_total", [0.03, 0.03], OTHER, every=5.0)
    found = case(waiting(*[0.4] * 10), hits(8000), hits(90_000, OTHER), own, calm, busy()).findings
    assert [it.subject for it in found] == [POD] and "60 % of the time" in found[0].says


@pytest.mark.parametrize(
    ("shares", "rate"),
    [([0.03] * 10, 200_000.0), ([0.125] * 10, 200_000.0), ([0.9, 0.9, *[0.0] * 8], 8000.0)],
    ids=["streaming at the limit", "streaming at a small limit", "a program that starts"],
)
def test_hits_without_much_waiting_are_no_harm(shares: list[float], rate: float) -> None:
    result = case(waiting(*shares), hits(rate), busy(), globally(0, 0))
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_kswapd_at_work_is_not_waiting() -> None:
    """Page-cache streaming on a full node: kswapd frees, nobody else does."""
    kswapd = counter("thread_run_seconds_total", [0.75] * 10, "thread:kswapd0")
    assert not case(waiting(*[0.4] * 10), busy(), kswapd, globally(2, 64)).findings


def test_waiting_that_nobody_explains_is_blind_not_clear() -> None:
    verdict = case(waiting(*[0.5] * 10), hits(0), busy(), globally(0, 0)).verdicts[0]
    assert verdict.state == "blind" and "but no reclaim was seen" in verdict.says


def test_without_pressure_it_is_blind() -> None:
    what = "pressure_memory_waiting_seconds_total"
    verdict = case(hits(8000), busy(), unseen={what: "operation not supported"}).verdicts[0]
    assert verdict.state == "blind" and "operation not supported" in verdict.says
