"""What an operator does with a real node: copy its recording, drain it past a budget, upgrade and remove the chart."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.images import IMAGE
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import CHART, NAMESPACE, VALUES, Whole

from zombiescope.kubernetes import drain as draining
from zombiescope.kubernetes.drain import NotDrained, cordon, drain, uncordon

pytestmark = pytest.mark.alone
GUARDED = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: guarded, namespace: default}}
spec:
  selector: {{matchLabels: {{app: guarded}}}}
  template:
    metadata: {{labels: {{app: guarded}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: work, image: {IMAGE}, command: [sleep, infinity]}}]
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {{name: guarded, namespace: default}}
spec:
  minAvailable: 1
  selector: {{matchLabels: {{app: guarded}}}}
"""


def test_a_recording_is_copied_and_understood(whole: Whole, tmp_path: Path, zombiescope: Any) -> None:
    done = whole.plugin("record", NAME, "--output", str(tmp_path / "rec"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "rec") and " MB" in done.stderr
    told = zombiescope("diagnose", str(tmp_path / "rec"), "--format", "json", expect=None)
    assert told.returncode in (0, 1, 3) and '"verdicts"' in told.stdout, told.stderr
    again = whole.plugin("record", NAME, "--output", str(tmp_path / "rec"))
    assert again.returncode == 2 and "there already" in again.stderr


def test_a_flame_graph_of_the_node(whole: Whole) -> None:
    done = whole.plugin("flame", NAME)
    assert done.returncode == 0 and ";" in done.stdout.splitlines()[0], done.stderr


def test_hours_are_gathered_through_kubectl(whole: Whole, tmp_path: Path, zombiescope: Any) -> None:
    """The agent listens on its pod's loopback address alone. It is too young to have an hour that is over."""
    env = whole.kubectl_environment()
    done = zombiescope("fleet", "gather", "--kubernetes", "--store", str(tmp_path), "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    assert (told["recording"], told["node"], told["why not"]) == (NAME, NAME, "")


def test_a_kubelet_that_hangs_does_not_cost_the_condition(whole: Whole) -> None:
    before = whole.starved()
    whole.kubelet.process.send_signal(signal.SIGSTOP)
    try:
        whole.until(lambda: whole.cluster.conditions(NAME)["Ready"]["status"] != "True", 90)
        assert whole.starved()["lastHeartbeatTime"] >= before["lastHeartbeatTime"]
    finally:
        whole.kubelet.process.send_signal(signal.SIGCONT)
    whole.until(whole.kubelet.ready, 90)
    assert whole.starved().get("type") == "ZombiescopeStarved"


def test_a_server_that_is_away_is_not_stormed(whole: Whole) -> None:
    """Tries while it is away cannot be counted by it: those that come right after its return can."""
    whole.cluster.stop()
    time.sleep(30)
    whole.cluster.start()
    began = time.time()
    time.sleep(30)
    asked = [
        it
        for it in whole.cluster.asked(f"system:serviceaccount:{NAMESPACE}")
        if it["requestReceivedTimestamp"] >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(began))
    ]
    assert len(asked) <= 10, [it["requestURI"] for it in asked]
    assert "Traceback" not in whole.logs()
    whole.until(whole.kubelet.ready, 90)


def test_a_drain_honours_a_budget(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "AGAIN", 1.0)
    client = whole.cluster.client
    whole.cluster.kubectl("delete", "pod", "crasher", "--ignore-not-found", "--wait=true")
    whole.cluster.kubectl("delete", "job", "well", "--ignore-not-found", "--wait=true")
    whole.apply(GUARDED)
    whole.cluster.kubectl("rollout", "status", "deployment/guarded", "--timeout=90s")
    before = client.get(f"/api/v1/nodes/{NAME}").body["spec"]
    cordon(client, NAME)
    with pytest.raises(NotDrained, match="guarded"):
        drain(client, NAME, 10.0, lambda _: None)
    assert len(_pods(whole, "app=guarded")) == 1, "the budget holds"
    whole.cluster.kubectl("delete", "poddisruptionbudget", "guarded")
    drain(client, NAME, 90.0, lambda _: None)
    assert not [it for it in _pods(whole, "app=guarded") if it["spec"].get("nodeName") == NAME]
    assert _pods(whole, "app.kubernetes.io/name=zombiescope", NAMESPACE), "a DaemonSet's pod stays"
    uncordon(client, NAME)
    whole.until(lambda: client.get(f"/api/v1/nodes/{NAME}").body["spec"] == before, 30)
    whole.cluster.kubectl("delete", "deployment", "guarded", "--wait=false")


def test_both_helms_upgrade_roll_back_and_remove(whole: Whole) -> None:
    change = f"{VALUES},agent.window=20m"
    whole.helm("upgrade", "zombiescope", str(CHART), "--set", change, "--wait", "--timeout", "180s")
    whole.until(lambda: "20m" in _config(whole), 30)
    whole.helm("rollback", "zombiescope", "1", "--wait", "--timeout", "180s", program_name="helm3")
    assert "20m" not in _config(whole)
    whole.helm("uninstall", "zombiescope", "--wait", "--timeout", "120s", program_name="helm3")
    whole.until(lambda: whole.starved()["reason"] == "AgentStopped", 60)
    assert whole.starved()["status"] == "Unknown"
    told = '{"status":{"conditions":[{"type":"ZombiescopeStarved","$patch":"delete"}]}}'
    whole.cluster.kubectl("patch", "node", NAME, "--subresource", "status", "-p", told)
    assert not whole.starved() and "Ready" in whole.cluster.conditions(NAME)


def _pods(whole: Whole, selector: str, namespace: str = "default") -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector.replace('=', '%3D').replace('/', '%2F')}"
    found: list[dict[str, Any]] = whole.cluster.client.get(path).body["items"]
    return [it for it in found if "deletionTimestamp" not in it["metadata"]]


def _config(whole: Whole) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/zombiescope"
    return str(whole.cluster.client.get(path).body["data"]["agent.toml"])
