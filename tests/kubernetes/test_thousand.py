"""A thousand agents' worth of reports to one real API server: what healthy nodes ask of it, and after it was away.

Time runs ten times as fast as in life: the heartbeat comes every 30 s, a look every 6 s. All else is the agent's own
code, each node with its reporter, its client and its thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_reporter import Said
from tests.kubernetes.told import STATES, going_on

from zombiescope.kubernetes import events, reporter
from zombiescope.kubernetes.client import Client
from zombiescope.kubernetes.conditions import conditions
from zombiescope.kubernetes.reporter import Reporter

pytestmark = [pytest.mark.alone, pytest.mark.long]
NODES, SICK = 1000, 10
FASTER = 10.0
LOOK = 60.0 / FASTER  # seconds from one look to the next
STEADY = 66.0  # seconds that are counted: eleven minutes in life
AWAY, AFTER = 20.0, 45.0


class Fleet:
    """`figure` changes with each look, as the figures in a message do."""

    def __init__(self, cluster: Cluster, access: Any) -> None:
        self.cluster = cluster
        self.names = [f"thousand-{number}" for number in range(NODES)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(cluster.node, self.names))
        self.said = Said()
        self.reporters = {name: Reporter(Client(access, timeout=30.0), name, self.said) for name in self.names}
        self.figure = 0

    def look(self, sick: frozenset[str] = frozenset()) -> None:
        self.figure += 1
        for name, one in self.reporters.items():
            found = [going_on(says=f"keeps crashing: {self.figure} restarts")] if name in sick else []
            one.tell(conditions(name, STATES, found))

    def looks(self, seconds: float, sick: frozenset[str] = frozenset()) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.look(sick)
            time.sleep(min(LOOK, left))

    def asked(self, since: float) -> list[dict[str, Any]]:
        begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        found = [it for it in self.cluster.asked("system:serviceaccount:zombiescope") if "thousand-" in str(it)]
        return [it for it in found if it["requestReceivedTimestamp"] >= begun]

    def starved(self) -> Counter[str]:
        listed = self.cluster.client.get("/api/v1/nodes", most=64 << 20).body["items"]
        told = [
            it for node in listed if node["metadata"]["name"] in self.reporters for it in node["status"]["conditions"]
        ]
        return Counter(it["status"] for it in told if it["type"] == "ZombiescopeStarved")

    def until(self, status: str, count: int, seconds: float = 120.0) -> None:
        """To list a thousand nodes costs the server as much as fifty of their patches: now and then."""
        deadline = time.monotonic() + seconds
        while self.starved()[status] != count:
            assert time.monotonic() < deadline, self.starved()
            time.sleep(3.0)


@pytest.fixture
def fleet(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(reporter, "HEARTBEAT", reporter.HEARTBEAT / FASTER)
    cluster.kubectl("apply", "-k", str(PROJECT / "deploy" / "kustomize" / "base"))
    made = Fleet(cluster, cluster.service_account("zombiescope", "zombiescope", tmp_path))
    yield made
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda it: it.close((), 10.0), made.reporters.values()))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: cluster.client.delete(f"/api/v1/nodes/{name}"), made.names))


@contextmanager
def measured(cluster: Cluster, what: str) -> Iterator[None]:
    began, used = time.monotonic(), cluster.cpu_seconds()
    yield
    passed, cpu = time.monotonic() - began, cluster.cpu_seconds() - used
    print(f"{what}: {cpu:.1f} s of the API server's CPU in {passed:.0f} s")


def test_a_thousand_agents(fleet: Fleet) -> None:
    cluster = fleet.cluster
    with measured(cluster, "idle"):
        time.sleep(10)
    with measured(cluster, f"the first words of {NODES} agents at once"):
        fleet.look()
        fleet.until("False", NODES)
    began, used, at = time.time(), cluster.cpu_seconds(), time.monotonic()
    before = len(fleet.said.lines)  # the first words of all at once may take the server longer than they wait
    fleet.looks(STEADY)
    passed, cpu = time.monotonic() - at, cluster.cpu_seconds() - used
    asked = fleet.asked(began)
    minutes = passed * FASTER / 60
    each = len(asked) / NODES / minutes
    print(f"{len(asked)} requests of {NODES} healthy nodes in {minutes:.1f} min of life: {each:.2f} a minute each")
    print(f"{cpu:.1f} s of the API server's CPU: {cpu / (passed * FASTER):.2%} of a core in life")
    assert each <= 0.3 and {it["verb"] for it in asked} == {"patch"}
    assert not [line for line in fleet.said.lines[before:] if "could not be posted" in line]

    sick = frozenset(fleet.names[:SICK])
    for name in sick:
        fleet.reporters[name].event(events.body(name, going_on(), time.time(), ended=False))
    fleet.look(sick)
    fleet.until("True", SICK)

    cluster.stop()
    fleet.looks(AWAY, sick)
    cluster.start()
    began = time.time()
    fleet.looks(AFTER, sick)
    asked = fleet.asked(began)
    fullest = max(Counter(it["requestReceivedTimestamp"][:19] for it in asked).values())
    print(f"after {AWAY:.0f} s away: {len(asked)} requests in {AFTER:.0f} s, {fullest} in the fullest second")
    # While the server starts, requests wait for it, one of each node at most: it takes all of them at once.
    by_node = Counter(it["objectRef"].get("name", "") for it in asked if it["objectRef"]["resource"] == "nodes")
    assert len(asked) <= 3 * NODES and fullest <= NODES and max(by_node.values()) <= 6
    assert fleet.starved() == {"False": NODES - SICK, "True": SICK}
    assert sum(one.lost for one in fleet.reporters.values()) == 0
