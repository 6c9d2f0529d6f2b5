"""`fleet gather --kubernetes` against a real API server: whom it asks, and what it says of those it cannot reach."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.kubernetes.binaries import cache_folder
from tests.kubernetes.cluster import Cluster
from tests.waiting import until

from zombiescope.__main__ import main

pytestmark = pytest.mark.alone


@pytest.fixture
def asked(controlled: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """kubectl is found, and asks this cluster."""
    monkeypatch.setenv("PATH", f"{cache_folder() / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(controlled.kubeconfig))
    monkeypatch.setenv("KUBECACHEDIR", str(controlled.folder / "cache"))  # what the server knows
    return controlled


def _agent(cluster: Cluster, node: str) -> None:
    """A pod that its node has said to run, though no kubelet is there."""
    cluster.node(node)
    until(lambda: cluster.kubectl("get", "serviceaccount", "default", expect=None).returncode == 0)
    about = {"name": node, "labels": {"app.kubernetes.io/name": "zombiescope"}}
    spec = {"nodeName": node, "containers": [{"name": "agent", "image": "zombiescope:0"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
    cluster.client.create("/api/v1/namespaces/default/pods", pod)
    cluster.client.patch(f"/api/v1/namespaces/default/pods/{node}/status", {"status": {"phase": "Running"}})


def test_a_node_that_cannot_be_reached_costs_only_itself(
    asked: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "s")]
    assert main(["fleet", "gather", "--kubernetes", *store]) == 2
    assert "no agent runs in this cluster" in capsys.readouterr().err
    try:
        for node in ("unreached-1", "unreached-2"):
            _agent(asked, node)
        assert main(["fleet", "gather", "--kubernetes", *store, "--format", "json"]) == 3
        told = json.loads(capsys.readouterr().out)
        assert [it["recording"] for it in told] == ["unreached-1", "unreached-2"]
        assert all(it["hours"] == 0 and it["why not"].startswith("kubectl exec: ") for it in told)
    finally:
        asked.kubectl(
            "delete", "pod", "--selector", "app.kubernetes.io/name=zombiescope", "--grace-period=0", "--force"
        )
