"""A pod that crashes again and again on a real kubelet, as the cluster sees it."""

from __future__ import annotations

import json
import time

import pytest
from tests.kubernetes.images import IMAGE
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import NAMESPACE, Whole

pytestmark = pytest.mark.alone
SUBJECT = "container:default/crasher/web"
SOON = 180.0  # seconds until the cluster must say it
# Each run leaves a page in memory that outlives it, so its cgroup stays.
CRASHER = f"""
apiVersion: v1
kind: Pod
metadata: {{name: crasher, namespace: default}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: web
      image: {IMAGE}
      command: [sh, -c, "head -c 65536 /dev/zero > /leak/$(cat /proc/sys/kernel/random/uuid); sleep 8; exit 5"]
      volumeMounts: [{{name: leak, mountPath: /leak}}]
  volumes: [{{name: leak, emptyDir: {{medium: Memory}}}}]
"""
# The control: work that ends well, one container after the other, is no loop.
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: well, namespace: default}}
spec:
  completions: 6
  template:
    spec:
      restartPolicy: OnFailure
      containers: [{{name: work, image: {IMAGE}, command: [sh, -c, "sleep 1"]}}]
"""


def test_the_agent_runs_as_the_chart_says(whole: Whole) -> None:
    whole.until(whole.starved, 90)
    assert "Traceback" not in whole.logs()
    told = whole.cluster.conditions(NAME)
    assert told["Ready"]["status"] == "True", "what the kubelet says stays"


def test_the_cluster_names_what_crashes(whole: Whole) -> None:
    whole.apply(CRASHER)
    whole.apply(JOB)
    took = whole.until(lambda: whole.starved().get("reason") == "CrashLoopingContainer", SOON)
    print(f"the condition was there after {took:.0f} s")
    told = whole.starved()
    assert told["status"] == "True" and "default/crasher/web" in told["message"]
    assert "exit code 5" in told["message"]
    whole.until(lambda: _events(whole), 30)
    (event,) = _events(whole)
    assert "default/crasher/web" in event["message"] and event["type"] == "Warning"


def test_the_table_shows_it(whole: Whole) -> None:
    done = whole.plugin("nodes")
    assert done.returncode == 1, done.stderr
    (line,) = [it for it in done.stdout.splitlines() if it.startswith(f"{NAME} ")]
    assert "CrashLoopingContainer" in line and "default/crasher/web" in line


@pytest.mark.long
def test_diagnose_returns_the_chain(whole: Whole) -> None:
    """Ten seconds see one end at most: it takes five restarts from before to call that a loop, five minutes here."""
    count = "{.status.containerStatuses[0].restartCount}"
    whole.until(lambda: int(whole.cluster.kubectl("get", "pod", "crasher", "-o", f"jsonpath={count}").stdout) >= 5, 420)
    done = whole.plugin("diagnose", NAME, "--seconds", "10", "--format", "json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    (cause,) = [it for it in told["root_causes"] if it["subject"] == SUBJECT]
    assert cause["sign"] == "crash_looping_container" and "exit code 5" in cause["says"]
    assert not [it for it in told["findings"] if "/well-" in it["subject"]], "a job that ends well is no finding"


@pytest.mark.long
def test_it_clears_when_the_pod_is_gone(whole: Whole) -> None:
    whole.cluster.kubectl("delete", "pod", "crasher", "--wait=true")
    whole.cluster.kubectl("delete", "job", "well", "--wait=true")
    took = whole.until(lambda: whole.starved().get("status") != "True", 600)
    print(f"cleared after {took:.0f} s")
    assert any(it["reason"] == "CrashLoopingContainerEnded" for it in whole.cluster.events(NAME))
    done = whole.plugin("nodes")
    assert "CrashLoopingContainer" not in done.stdout


def test_a_healthy_agent_asks_little(whole: Whole) -> None:
    """At most one request a minute for each change, and a heartbeat every five minutes."""
    asked = [it for it in whole.cluster.asked(f"system:serviceaccount:{NAMESPACE}") if it["verb"] != "watch"]
    began = whole.cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}").body["metadata"]["creationTimestamp"]
    passed = time.time() - time.mktime(time.strptime(began, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone
    print(f"{len(asked)} requests in {passed:.0f} s")
    assert len(asked) <= 6 + 2 * passed / 60, [it["requestURI"] for it in asked]


def _events(whole: Whole) -> list[dict[str, str]]:
    return [it for it in whole.cluster.events(NAME) if it["reason"] == "CrashLoopingContainer"]
