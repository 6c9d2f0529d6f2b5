"""A Deployment whose container crashes again and again on a real kubelet, as the cluster sees it. All is by default."""

from __future__ import annotations

import json
import re
import time

import pytest
from tests.kubernetes.images import IMAGE
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import NAMESPACE, Whole, deployment

pytestmark = pytest.mark.alone
SUBJECT = re.compile(r"container:default/crasher-[4-9b-f]+-[a-z0-9]{5}/web")
SOON = 180.0  # seconds until the cluster must say it
# Each run leaves a page in memory that outlives it, so its cgroup stays.
CRASHER = deployment(
    "crasher",
    f"""
containers:
  - name: web
    image: {IMAGE}
    command: [sh, -c, "head -c 65536 /dev/zero > /leak/$(cat /proc/sys/kernel/random/uuid); sleep 8; exit 5"]
    volumeMounts: [{{name: leak, mountPath: /leak}}]
volumes: [{{name: leak, emptyDir: {{medium: Memory}}}}]
""",
)
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
    assert json.loads(whole.agent_says("/healthz"))["healthy"]
    first = next(json.loads(line) for line in whole.logs().splitlines() if "records into" in line)
    began = whole.agent["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    print(f"the container began at {began}, the agent recorded at {first}")


def test_the_cluster_names_what_crashes(whole: Whole) -> None:
    whole.apply(CRASHER)
    whole.apply(JOB)
    took = whole.until(lambda: whole.starved().get("reason") == "CrashLoopingContainer", SOON)
    print(f"the condition was there after {took:.0f} s")
    told = whole.starved()
    assert told["status"] == "True" and "default/crasher-" in told["message"]
    print(told["message"])
    assert "exit code 5, of Deployment crasher" in told["message"]
    whole.until(lambda: _events(whole), 30)
    (event,) = _events(whole)
    assert "default/crasher-" in event["message"] and event["type"] == "Warning"
    assert "of Deployment crasher" in event["message"]


def test_the_table_shows_it(whole: Whole) -> None:
    shown = whole.page.run("kubectl zombiescope nodes", expect=1)
    (line,) = [it for it in shown.splitlines() if it.startswith(f"{NAME} ")]
    assert "CrashLoopingContainer" in line and "default/crasher-" in line
    assert "CrashLoopingContainer" in whole.page.run("kubectl describe node NODE")
    assert "CrashLoopingContainer" in whole.page.run("kubectl get events")


def test_diagnose_returns_the_chain(whole: Whole) -> None:
    """What the condition says is what the command that it names shows."""
    assert "keeps crashing" in whole.page.run("kubectl zombiescope diagnose NODE", expect=1)
    asked = ["zombiescope", "diagnose", "/var/lib/zombiescope", "--last", "10m", "--format", "json"]
    done = whole.cluster.kubectl(
        "exec", "-n", NAMESPACE, whole.agent["metadata"]["name"], "--", *asked, expect=1
    )  # as a program has it
    told = json.loads(done.stdout)
    (cause,) = [it for it in told["root_causes"] if SUBJECT.fullmatch(it["subject"])]
    assert cause["sign"] == "crash_looping_container" and "exit code 5" in cause["says"]
    assert any(chain[0]["subject"] == cause["subject"] for chain in told["chains"]) or cause in told["root_causes"]
    assert not [it for it in told["findings"] if "/well-" in it["subject"]], "a job that ends well is no finding"


def test_a_healthy_agent_asks_little(whole: Whole) -> None:
    """At most one request a minute for each change, and a heartbeat every five minutes."""
    asked = [it for it in whole.cluster.asked(f"system:serviceaccount:{NAMESPACE}") if it["verb"] != "watch"]
    began = whole.cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}").body["metadata"]["creationTimestamp"]
    passed = time.time() - time.mktime(time.strptime(began, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone
    print(f"{len(asked)} requests in {passed:.0f} s")
    assert len(asked) <= 6 + 2 * passed / 60, [it["requestURI"] for it in asked]


def test_it_keeps_to_its_budget_and_its_memory(whole: Whole) -> None:
    """CPU after its start, beside early looks; memory as the kernel counts it for the pod."""
    figures = dict(re.findall(r"^(zombiescope_own_\S+|zombiescope_look\S+) (\S+)", whole.agent_says("/metrics"), re.M))
    print(json.dumps(figures))
    status = whole.agent["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0
    peak = whole.kubelet.memory(whole.agent["metadata"]["uid"])
    print(f"the agent's pod: {peak['peak'] / 1e6:.0f} MB at most, page cache included; {peak['rss'] / 1e6:.0f} MB now")
    assert peak["oom_kills"] == 0 and peak["rss"] < 0.6 * peak["limit"]


def _events(whole: Whole) -> list[dict[str, str]]:
    return [it for it in whole.cluster.events(NAME) if it["reason"] == "CrashLoopingContainer"]
