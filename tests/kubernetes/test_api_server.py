"""The client, the rights and the reports against a real API server."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_manifests import ALL, CHART, helm
from tests.kubernetes.test_reporter import Said
from tests.kubernetes.told import STATES, going_on
from tests.waiting import until

from zombiescope.kubernetes import events, kubeconfig, reporter
from zombiescope.kubernetes.client import JSON, MERGE, Client, Refused
from zombiescope.kubernetes.conditions import TYPES, conditions, unknown
from zombiescope.kubernetes.reporter import Reporter

pytestmark = pytest.mark.alone
BASE = PROJECT / "deploy" / "kustomize" / "base"
NODES = 1000  # a fleet's worth of agents


@pytest.fixture(scope="module")
def agent(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The service account of the base, with the rights that it ships and no others."""
    cluster.kubectl("apply", "-k", str(BASE))
    return cluster.service_account("zombiescope", "zombiescope", tmp_path_factory.mktemp("account"))


def test_certificates_tokens_and_kubeconfig(cluster: Cluster) -> None:
    assert cluster.client.get("/version").body["gitVersion"] == "v1.20.2"
    assert Client(kubeconfig.access(str(cluster.kubeconfig))).get("/version").body["major"] == "1"
    with pytest.raises(Refused, match=r"HTTP 403 .*stranger.* cannot get resource") as refused:
        Client(cluster.user("stranger")).get("/api/v1/nodes/none")
    assert refused.value.denied
    with pytest.raises(Refused, match="HTTP 404") as refused:
        cluster.client.get("/api/v1/nodes/none")
    assert refused.value.reason == "NotFound" and not refused.value.later


def test_a_strategic_patch_keeps_ready_and_a_json_merge_would_not(cluster: Cluster) -> None:
    cluster.node("patched")
    path = "/api/v1/nodes/patched/status"
    body = {"status": {"conditions": [{"type": "ZombiescopeStarved", "status": "True", "reason": "X", "message": ""}]}}
    cluster.client.patch(path, body)
    assert set(cluster.conditions("patched")) == {"Ready", "ZombiescopeStarved"}
    cluster.client.patch(path, body, MERGE)
    assert set(cluster.conditions("patched")) == {"ZombiescopeStarved"}, "why we never use it"


def test_the_account_may_do_what_it_needs_and_nothing_else(cluster: Cluster, agent: Any) -> None:
    cluster.node("rights")
    client = Client(agent)
    client.get("/api/v1/nodes/rights")
    client.patch("/api/v1/nodes/rights/status", {"status": {"conditions": []}})
    client.create(events.PATH, events.body("rights", going_on(), time.time(), ended=False))
    forbidden = [
        ("GET", "/api/v1/nodes", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/api/v1/secrets", None),
        ("GET", events.PATH, None),
        ("PATCH", "/api/v1/nodes/rights", {"spec": {"unschedulable": True}}),
        ("DELETE", "/api/v1/nodes/rights", None),
        ("POST", "/api/v1/namespaces/kube-system/events", events.body("rights", going_on(), 0.0, ended=False)),
        ("POST", "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
    ]
    for method, where, body in forbidden:
        kind = MERGE if method == "PATCH" else JSON
        with pytest.raises(Refused, match="HTTP 403"):
            client.request(method, where, body, kind)


def test_sick_worse_and_well_again(cluster: Cluster, agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "APART", 0.2)
    cluster.node("sick")
    said = Said()
    it = Reporter(Client(agent), "sick", said)
    it.tell(conditions("sick", STATES, []))
    until(lambda: "ZombiescopeStarved" in cluster.conditions("sick"))
    clear = cluster.conditions("sick")
    assert {clear[name]["status"] for name in TYPES} == {"False"} and clear["Ready"]["status"] == "True"
    time.sleep(1.1)  # times are whole seconds on the server
    found = going_on()
    for _ in range(3):
        it.tell(conditions("sick", STATES, [found]))
        it.event(events.body("sick", found, time.time(), ended=False))
        until(lambda: not it._events)
    until(lambda: cluster.conditions("sick")["ZombiescopeStarved"]["status"] == "True")
    bad = cluster.conditions("sick")
    assert bad["ZombiescopeStarved"]["reason"] == bad["CrashLoopingAgent"]["reason"] == "CrashLoopingUnit"
    assert "ecs.service" in bad["ZombiescopeStarved"]["message"]
    assert bad["ZombiescopeStarved"]["lastTransitionTime"] > clear["ZombiescopeStarved"]["lastTransitionTime"]
    assert bad["NICPollStarved"]["lastTransitionTime"] == clear["NICPollStarved"]["lastTransitionTime"]
    until(lambda: cluster.events("sick") and cluster.events("sick")[0]["count"] == 3)
    (event,) = cluster.events("sick")
    assert (event["reason"], event["type"]) == ("CrashLoopingUnit", "Warning")
    described = " ".join(cluster.kubectl("describe", "node", "sick").stdout.split())
    assert "ZombiescopeStarved True" in described and "Warning CrashLoopingUnit" in described
    it.close(unknown("AgentStopped", "stopped"), 5.0)
    assert cluster.conditions("sick")["ZombiescopeStarved"]["status"] == "Unknown"
    assert cluster.conditions("sick")["Ready"]["status"] == "True" and not said.lines
    # A new agent counts on.
    again = Reporter(Client(agent), "sick", said)
    again.event(events.body("sick", found, time.time(), ended=False))
    again.event(events.body("sick", found, time.time(), ended=True))
    until(lambda: len(cluster.events("sick")) == 2)
    again.close((), 5.0)
    assert sorted((it["reason"], it["count"]) for it in cluster.events("sick")) == [
        ("CrashLoopingUnit", 4),
        ("CrashLoopingUnitEnded", 1),
    ]


def test_server_killed_hung_and_token_revoked_then_all_is_said(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "APART", 0.2)
    cluster.kubectl("apply", "-k", str(BASE))
    cluster.node("away")
    account = cluster.service_account("zombiescope", "zombiescope", tmp_path)
    said = Said()
    client = Client(account, timeout=3.0)
    it = Reporter(client, "away", said)
    it.tell(conditions("away", STATES, []))
    until(lambda: "ZombiescopeStarved" in cluster.conditions("away"))

    before = client.requests
    cluster.stop()
    it.tell(conditions("away", STATES, [going_on()]))
    it.event(events.body("away", going_on(), time.time(), ended=False))
    time.sleep(12)
    tries = client.requests - before
    assert tries <= 14, "two lanes, each doubling its pause from a second"
    cluster.start()
    until(lambda: cluster.conditions("away")["ZombiescopeStarved"]["status"] == "True")
    until(lambda: cluster.events("away"))
    assert len([line for line in said.lines if "connection refused" in line]) == 2  # one for each lane

    cluster.signal(signal.SIGSTOP)
    try:
        it.tell(conditions("away", STATES, []))
        until(lambda: "no whole answer in 3 s" in it.trouble or "timed out" in it.trouble)
    finally:
        cluster.signal(signal.SIGCONT)
    until(lambda: cluster.conditions("away")["ZombiescopeStarved"]["status"] == "False")

    good = (tmp_path / "token").read_text()
    (tmp_path / "token").write_text(good[:-8] + "AAAAAAAA")  # its signature is wrong: as good as revoked
    it.tell(conditions("away", STATES, [going_on()]))
    until(lambda: "HTTP 401" in it.trouble)
    (tmp_path / "new").write_text(good)
    os.replace(tmp_path / "new", tmp_path / "token")
    until(lambda: cluster.conditions("away")["ZombiescopeStarved"]["status"] == "True")
    it.close((), 5.0)
    assert it.lost == 0


def test_manifests_are_taken_by_the_server(cluster: Cluster) -> None:
    """Server-side dry run: defaulting, validation and admission of the real server. Others' kinds it does not know."""
    cluster.kubectl("apply", "-f", str(BASE / "namespace.yaml"))  # a dry run makes none for what follows
    for variant in ("base", "remediate"):
        cluster.kubectl("apply", "-k", str(PROJECT / "deploy" / "kustomize" / variant), "--dry-run=server")
    cluster.kubectl("apply", "-k", str(BASE))  # its namespace, for the chart
    # The controllers may not run: they would make the account that the test's pod has.
    cluster.kubectl("create", "serviceaccount", "default", "--namespace", "zombiescope", expect=None)
    text = helm("template", "other", str(CHART), "--namespace", "zombiescope", "--kube-version", "1.20.2", *ALL)
    known = [part for part in text.split("\n---\n") if "monitoring.coreos.com" not in part]
    done = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin="\n---\n".join(known))
    assert done.stdout.count("(server dry run)") == len([part for part in known if "kind:" in part])
    assert "daemonset.apps/other-zombiescope created" in done.stdout


def test_helm_installs_upgrades_rolls_back_and_removes(cluster: Cluster) -> None:
    where = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", "by-helm")
    helm("install", "zs", str(CHART), "--create-namespace", *where)
    path = "/apis/apps/v1/namespaces/by-helm/daemonsets/zs-zombiescope"
    assert cluster.client.get(path).body["spec"]["template"]["spec"]["hostPID"]
    first = cluster.client.get(path).body["spec"]["template"]
    helm("upgrade", "zs", str(CHART), "--set", "agent.every=30s,variant=remediate", *where)
    assert cluster.client.get(path).body["spec"]["template"] != first, "other settings are other pods"
    helm("rollback", "zs", "1", *where)
    assert cluster.client.get(path).body["spec"]["template"] == first
    helm("uninstall", "zs", *where)
    with pytest.raises(Refused, match="HTTP 404"):
        cluster.client.get(path)
    left = cluster.kubectl("get", "clusterrole,clusterrolebinding,role,rolebinding", "-A", "-o", "name").stdout
    assert "zs-zombiescope" not in left


def test_a_thousand_nodes(cluster: Cluster, agent: Any) -> None:
    """Every node's first two requests at once, then a heartbeat each: what the API server pays for."""
    names = [f"fleet-{number}" for number in range(NODES)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(cluster.node, names))
    clients = [Client(agent, timeout=60.0) for _ in names]
    told = [{"type": it.type, "status": it.status, "reason": it.reason} for it in conditions("n", STATES, [])]

    def beat(number: int) -> None:
        clients[number].patch(f"/api/v1/nodes/{names[number]}/status", {"status": {"conditions": told}})

    began, used = time.monotonic(), cluster.cpu_seconds()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(beat, range(NODES)))
    cpu = cluster.cpu_seconds() - used
    listed = cluster.client.get("/api/v1/nodes", most=64 << 20).body["items"]
    starved = [it for it in listed if any(one["type"] == "ZombiescopeStarved" for one in it["status"]["conditions"])]
    assert len([it for it in starved if it["metadata"]["name"].startswith("fleet-")]) == NODES
    share = cpu / reporter.HEARTBEAT
    took = time.monotonic() - began
    print(json.dumps({"nodes": NODES, "apiserver_cpu_seconds": round(cpu, 2), "took": round(took, 1)}))
    print(f"one heartbeat of {NODES} nodes every {reporter.HEARTBEAT:.0f} s: {share:.2%} of a core")
    assert share < 0.25
    assert 60.0 / reporter.HEARTBEAT <= 1.0, "requests a minute of a healthy node"
