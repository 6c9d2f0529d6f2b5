"""lost_packets: by rate and share, by namespace, core and card; totals since boot and a handful say nothing."""

from __future__ import annotations

import pytest
from tests.nodes import node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.knowledge.drops import drops
from zombiescope.laws import cpu_throttling_to_lost_packets, starved_softirq_to_lost_packets
from zombiescope.members.rooms import healthy
from zombiescope.signs import lost_packets

POD, PATH = "netns:4026532281", "/kubepods/pod1"
CAME = {"net_accepted_total": 1000.0, "net_segments_received_total": 50_000.0, "net_udp_received_total": 50_000.0}


def counters(subject: str, text: str = "", **rises: float) -> list[Reading]:
    """Each counter was at 7,000 before, and rose by so much in each of two samples."""
    return [
        read(what, subject, 7_000 + place * rise, place * 5.0, text)
        for what, rise in (CAME | rises).items()
        for place in range(3)
    ]


def case(readings: list[Reading], unseen: dict[str, str] | None = None) -> Case:
    remedies = {"enlarge_queue": healthy("remedies")["enlarge_queue"]}
    return examine(node(readings, unseen=unseen), signs={"lost_packets": lost_packets}, laws={}, remedies=remedies)


def test_a_pod_that_does_not_accept() -> None:
    result = case([*counters("node"), *counters(POD, PATH, net_accepts_refused_total=500.0)])
    (found,) = result.root_causes
    assert found.subject == POD and found.culprit == f"cgroup:{PATH}"
    assert found.says == ("had 1,000 connections refused because an accept queue was full (33.3 %) (in /kubepods/pod1)")
    assert dict(found.harm.broken) == {"drops": 1000} and "listen backlog" in result.plans[0].steps[1].says


@pytest.mark.parametrize("way", [it.counter for it in drops()])
def test_every_way_of_the_node(way: str) -> None:
    (found,) = case(counters("node", "", **{way: 2000.0})).root_causes
    assert found.subject == "node" and "had 4,000 " in found.says


@pytest.mark.parametrize("way", ["nic_allowance_exceeded_total", "conntrack_insert_failed_total"])
def test_a_burst_in_an_hour_is_ordinary(way: str) -> None:
    subject = "nic:ens5" if way.startswith("nic") else "node"
    hour = [read(way, subject, min(at, 300.0), at) for at in range(0, 3600, 5)]
    burst = [read(way, subject, at, float(at)) for at in range(0, 60, 5)]
    assert not case([*counters("node"), *hour]).findings
    assert [it.sign for it in case([*counters("node"), *burst]).root_causes] == ["lost_packets"]


def test_the_share_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = counters("node", "", net_accepts_refused_total=500.0)
    monkeypatch.setattr(lost_packets, "REFUSED", 0.4)
    assert not case(refused).findings, "a third were refused"
    monkeypatch.undo()
    assert case(refused).findings


def test_tcp_memory_is_told_with_how_much_is_used() -> None:
    memory = [read("tcp_memory_pages", "node", 95, 0), read("tcp_memory_limit_pages", "node", 100, 0)]
    (found,) = case([*counters("node", net_tcp_pressures_total=2.0), *memory]).root_causes
    assert "TCP uses 95 % of its memory" in found.says


def test_the_backlog_of_a_core_and_the_allowance_of_a_card() -> None:
    core = [read("softnet_dropped_total", "cpu:1", at * 20, at) for at in (0.0, 5.0)]
    core += [read("softnet_processed_total", "cpu:1", at * 200, at) for at in (0.0, 5.0)]
    card = [read("nic_allowance_exceeded_total", "nic:ens5", at * 9, at) for at in (0.0, 10.0)]
    found = case([*counters("node"), *core, *card]).root_causes
    assert {it.subject for it in found} == {"cpu:1", "nic:ens5"}


def test_copies_of_multicast_that_nobody_reads_are_noted() -> None:
    result = case(counters("node", "", net_udp_dropped_total=400_000.0, net_udp_received_total=10.0))
    assert [it.sign for it in result.noted] == ["lost_packets"] and "as nobody reads it" in result.noted[0].says


def test_the_log_alone_is_noted() -> None:
    line = "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:7070. Sending cookies."
    (found,) = case([*counters("node"), read("kernel_log", "node", 4, 1, line)]).noted
    assert found.says == "has a full accept queue in its log, of port 0.0.0.0:7070"


@pytest.mark.parametrize(
    "readings",
    [
        counters("node", net_udp_dropped_total=0.0, net_accepts_refused_total=0.0),
        counters("node", net_udp_dropped_total=4.0),
        counters("node", net_udp_dropped_total=20.0),
        counters("node", net_accepts_refused_total=9.0),
        counters("node", net_retransmitted_total=9_000.0),
        [*counters("node"), read("nic_allowance_exceeded_total", "nic:ens5", 4_000_000, 0.0)],
    ],
    ids=["lost before", "a handful", "a small share", "a burst of connections", "retransmissions", "read once"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_blind() -> None:
    assert case([], {"net_segments_received_total": "permission denied"}).verdicts[0].state == "blind"
    pods = case(counters("node"), {"net_accepts_refused_total": "permission denied"}).verdicts[0]
    assert pods.state == "blind" and "losses of pods: permission denied" in pods.says


def finding(subject: str, culprit: str = "") -> Finding:
    timeline = node([read("x", subject, 1, 0)])
    return Finding(subject=subject, span=timeline.span, says="", evidence=(read("x", subject, 1, 0),), culprit=culprit)


def test_who_does_not_read_and_which_core_does_not_take_packets() -> None:
    timeline = node([])
    throttled, other = finding("cgroup:/kubepods"), finding("cgroup:/kube")
    lost = finding(POD, culprit=f"cgroup:{PATH}")
    assert [it.kind for it in cpu_throttling_to_lost_packets.grounds(throttled, lost, timeline)] == ["place"]
    assert not list(cpu_throttling_to_lost_packets.grounds(other, lost, timeline))
    assert not list(cpu_throttling_to_lost_packets.grounds(throttled, finding("node"), timeline))
    assert list(starved_softirq_to_lost_packets.grounds(finding("cpu:1"), finding("cpu:1"), timeline))
    assert not list(starved_softirq_to_lost_packets.grounds(finding("cpu:0"), finding("cpu:1"), timeline))
