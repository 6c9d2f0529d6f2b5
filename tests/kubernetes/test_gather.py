"""`fleet gather --kubernetes` against a real API server: whom it asks, and what it says of those it cannot reach."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.binaries import cache_folder
from tests.kubernetes.cluster import Cluster
from tests.waiting import until

from zombiescope.__main__ import main
from zombiescope.plugin.pods import DAEMONSET

pytestmark = pytest.mark.alone
NAMESPACE = "asked"  # other tests have agents in ours


@pytest.fixture
def asked(controlled: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """kubectl is found, and asks this cluster."""
    monkeypatch.setenv("PATH", f"{cache_folder() / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(controlled.kubeconfig))
    monkeypatch.setenv("KUBECACHEDIR", str(controlled.folder / "cache"))  # what the server knows
    return controlled


def _agents(cluster: Cluster, *nodes: str) -> None:
    """Pods of our DaemonSet that their nodes have said to run, though no kubelet is there."""
    for node in nodes:
        cluster.node(node)
        cluster.kubectl("label", "node", node, "asked=yes")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "serviceaccount", DAEMONSET, "--namespace", NAMESPACE)
    labels = {"app.kubernetes.io/name": "zombiescope"}
    spec = {
        "serviceAccountName": DAEMONSET,
        "nodeSelector": {"asked": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "agent", "image": "zombiescope:0"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMONSET},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    cluster.client.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", daemonset)

    def made() -> list[dict[str, Any]]:
        told = json.loads(cluster.kubectl("get", "pods", "--namespace", NAMESPACE, "-o", "json").stdout)["items"]
        return told if len(told) == len(nodes) else []

    for pod in until(made):  # no scheduler runs here: each is bound to the node that it was made for
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (node,) = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"]
        about = {"name": pod["metadata"]["name"], "namespace": NAMESPACE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": {"kind": "Node", "name": node}}
        cluster.client.create(f"{path}/binding", binding)
        cluster.client.patch(f"{path}/status", {"status": {"phase": "Running"}})


def test_a_node_that_cannot_be_reached_costs_only_itself(
    asked: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "s"), "--namespace", NAMESPACE]
    assert main(["fleet", "gather", "--kubernetes", *store]) == 2
    assert "no agent runs in this cluster" in capsys.readouterr().err
    try:
        _agents(asked, "unreached-1", "unreached-2")
        assert main(["fleet", "gather", "--kubernetes", *store, "--format", "json"]) == 3
        told = json.loads(capsys.readouterr().out)
        assert [it["recording"] for it in told] == ["unreached-1", "unreached-2"]
        assert all(it["hours"] == 0 and it["why not"].startswith("kubectl exec: ") for it in told)
    finally:
        asked.kubectl("delete", "namespace", NAMESPACE, "--wait=false", expect=None)
