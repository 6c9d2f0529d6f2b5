"""Draining a node of a real cluster: budgets are honoured, what must stay stays, the way back is exact.

No kubelet runs here: what it would do to an evicted pod, to confirm that it is gone, is done by the test.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.cluster import Cluster
from tests.meanwhile import meanwhile
from tests.remedies.planned import to_nobody
from tests.remedies.test_drain_and_reboot import KUBELET, planned
from tests.waiting import until

from zombiescope.core import Host
from zombiescope.core.forms import Form
from zombiescope.kubernetes import drain as draining
from zombiescope.kubernetes.client import Refused
from zombiescope.kubernetes.drain import NotDrained, cordon, drain, eviction_version, pods, uncordon
from zombiescope.remedies import drain_and_reboot
from zombiescope.treatment.apply import Machine, apply, undo
from zombiescope.treatment.ledger import Ledger

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "AGAIN", 0.5)
    monkeypatch.setattr(draining, "GONE", 0.2)


def spec(node: str) -> dict[str, Any]:
    return {"nodeName": node, "containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 1}


def replica_set(cluster: Cluster, name: str, node: str, replicas: int) -> None:
    until(lambda: _found(cluster, "/api/v1/namespaces/default/serviceaccounts/default"))
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec(node)}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": body}
    cluster.client.create("/apis/apps/v1/namespaces/default/replicasets", kind)
    until(lambda: len(_pods(cluster, name)) == replicas)
    for pod in _pods(cluster, name):
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.client.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status", {"status": ready})


def budget(cluster: Cluster, name: str, least: int) -> None:
    path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    body = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
    kind = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body}
    cluster.client.create(path, kind)
    until(lambda: cluster.client.get(f"{path}/{name}").body.get("status", {}).get("currentHealthy"))


def _pods(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    found = cluster.client.get(f"/api/v1/namespaces/default/pods?labelSelector=app%3D{name}").body["items"]
    return [it for it in found if "deletionTimestamp" not in it["metadata"]]


def _found(cluster: Cluster, path: str) -> bool:
    try:
        cluster.client.get(path)
        return True
    except Refused:
        return False


def kubelet(cluster: Cluster, node: str) -> AbstractContextManager[None]:
    """Confirms that evicted pods of the node are gone."""

    def confirm(over: threading.Event) -> None:
        while not over.wait(0.2):
            listed = cluster.client.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}").body["items"]
            for it in listed:
                if "deletionTimestamp" in it["metadata"]:
                    about = it["metadata"]
                    where = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}?gracePeriodSeconds=0"
                    try:
                        cluster.client.delete(where)
                    except Refused as error:
                        assert error.status == 404

    return meanwhile(confirm)


def test_cordon_and_back_is_exact_and_somebody_else_s_cordon_stays(controlled: Cluster) -> None:
    cluster = controlled
    cluster.node("corded")
    path = "/api/v1/nodes/corded"
    before = cluster.client.get(path).body
    assert "is cordoned" in cordon(cluster.client, "corded")
    until(lambda: cluster.client.get(path).body["spec"].get("taints"))
    assert "already" in cordon(cluster.client, "corded")
    assert "can be used" in uncordon(cluster.client, "corded")
    until(lambda: "unschedulable" not in json.dumps(cluster.client.get(path).body["spec"]))
    after = cluster.client.get(path).body
    assert after["spec"].get("unschedulable") == before["spec"].get("unschedulable")
    assert after["metadata"].get("annotations", {}).keys() - before["metadata"].get("annotations", {}).keys() <= {
        "node.alpha.kubernetes.io/ttl"  # the controllers' own
    }
    cluster.kubectl("cordon", "corded")
    assert "already" in cordon(cluster.client, "corded")
    assert "stays as it is" in uncordon(cluster.client, "corded")
    assert cluster.client.get(path).body["spec"]["unschedulable"] is True


def test_evicted_as_a_budget_allows(controlled: Cluster) -> None:
    cluster = controlled
    assert eviction_version(cluster.client) == "policy/v1beta1"
    cluster.node("full")
    replica_set(cluster, "guarded", "full", 2)
    budget(cluster, "guarded", 2)
    said: list[str] = []
    with kubelet(cluster, "full"), pytest.raises(NotDrained, match="disruption budget"):
        drain(cluster.client, "full", 3.0, said.append)
    assert len(_pods(cluster, "guarded")) == 2, "nothing was evicted"
    assert any("waits: HTTP 429" in line for line in said)
    path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets/guarded"

    def allow() -> None:
        time.sleep(2)
        cluster.client.patch(path, {"spec": {"minAvailable": 0}}, "application/merge-patch+json")

    old = {it["metadata"]["uid"] for it in _pods(cluster, "guarded")}
    helper = threading.Thread(target=allow)
    helper.start()
    with kubelet(cluster, "full"):
        drain(cluster.client, "full", 60.0, said.append)
    helper.join()
    assert said[-1] == "full is drained"
    assert not old & {it["metadata"]["uid"] for it in _pods(cluster, "guarded")}


def test_what_must_stay_stays(controlled: Cluster) -> None:
    cluster = controlled
    cluster.node("mixed")
    until(lambda: _found(cluster, "/api/v1/namespaces/default/serviceaccounts/default"))
    mirror = {"name": "mirror", "annotations": {"kubernetes.io/config.mirror": "x"}}
    for about in (mirror, {"name": "alone"}):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec("mixed")}
        cluster.client.create("/api/v1/namespaces/default/pods", body)
    with pytest.raises(NotDrained, match=r"without a controller.*default/alone"):
        drain(cluster.client, "mixed", 5.0, lambda _: None)
    cluster.client.delete("/api/v1/namespaces/default/pods/alone?gracePeriodSeconds=0")
    drain(cluster.client, "mixed", 5.0, lambda _: None)
    assert [(it.name, it.left) for it in pods(cluster.client, "mixed")] == [("mirror", "a mirror pod")]


def test_the_fix_there_and_back(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fix` runs the steps as separate commands, which find the server by KUBECONFIG."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    marker = str(tmp_path / "reboot-required")
    monkeypatch.setattr(drain_and_reboot, "MARKER", marker)
    forms = (*drain_and_reboot.FORMS[:2], Form(argv=("touch", marker), keeps=(marker,)))
    monkeypatch.setattr(drain_and_reboot, "FORMS", forms)
    cluster.node("worker-1")
    machine, ledger = Machine(Host(), Host()), Ledger(str(tmp_path / "ledger"))
    fix = apply(planned(KUBELET), machine, ledger, to_nobody, disruptive=True)
    assert fix.state == "finished" and (tmp_path / "reboot-required").exists()
    assert cluster.client.get("/api/v1/nodes/worker-1").body["spec"]["unschedulable"] is True
    undo(fix.id, machine, ledger, to_nobody)
    told = cluster.client.get("/api/v1/nodes/worker-1").body
    assert "unschedulable" not in told["spec"] and draining.OURS not in json.dumps(told)
    assert not (tmp_path / "reboot-required").exists()
