"""`kubectl zombiescope` as a user runs it, against a real API server; what its tables say of odd nodes."""

from __future__ import annotations

import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT
from tests.kubernetes.binaries import cache_folder
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.told import STATES, going_on
from tests.waiting import until

from zombiescope.kubernetes.conditions import conditions
from zombiescope.kubernetes.events import moment
from zombiescope.plugin.__main__ import main
from zombiescope.plugin.nodes import row

NOW = 1794873600.0
PLUGIN = Path(sys.executable).with_name("kubectl-zombiescope")


def node(**condition: Any) -> dict[str, Any]:
    told = {
        "type": "ZombiescopeStarved",
        "status": "True",
        "reason": "CrashLoopingUnit",
        "message": "x; see: kubectl y",
    }
    times = {"lastHeartbeatTime": moment(NOW - 60), "lastTransitionTime": moment(NOW - 7200)}
    return {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready"}, told | times | condition]}}


def test_a_row() -> None:
    found = row(node(), NOW)
    assert (found.node, found.starved, found.cause, found.since, found.says) == (
        *("n1", "True", "CrashLoopingUnit"),
        *("2.0 h", "x"),
    )
    assert row(node(status="Perhaps"), NOW).starved == "Unknown"
    assert row(node(lastHeartbeatTime=moment(NOW - 1000)), NOW).cause == "Stale"
    assert row(node(lastHeartbeatTime=None), NOW).cause == "Stale"
    assert row({"metadata": {"name": "n2"}}, NOW).cause == "NoAgent"
    assert row(node(lastTransitionTime=moment(NOW + 99)), NOW).since == ""


@given(
    st.dictionaries(
        st.sampled_from(["metadata", "status"]), st.none() | st.text() | st.dictionaries(st.text(), st.text())
    )
)
def test_any_node_has_a_row(told: dict[str, Any]) -> None:
    assert row(told, NOW).starved == "Unknown"


def test_an_escape_in_a_message_does_not_reach_the_terminal() -> None:
    assert row(node(message="\x1b[2J", reason="A\nB"), NOW).says.isprintable()


def test_without_kubectl_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["nodes"]) == 2
    assert "kubectl is not installed" in capsys.readouterr().err


def test_one_file_needs_python_alone(tmp_path: Path) -> None:
    """The one that krew installs: without our package, its dependencies, or any other."""
    made = runpy.run_path(str(PROJECT / "deploy" / "krew" / "make.py"))
    file = tmp_path / "kubectl-zombiescope"
    file.write_bytes(made["program"]())
    assert made["program"]() == file.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(made["archive"](file.read_bytes()))) as archive:
        assert archive.getnames() == ["kubectl-zombiescope", "LICENSE"] and archive.getmembers()[0].mode == 0o755
    bare = [sys.executable, "-I", "-S", str(file)]
    helped = subprocess.run([*bare, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "kubectl zombiescope nodes" in helped.stdout
    done = subprocess.run([*bare, "nodes"], capture_output=True, text=True, timeout=60, env={"PATH": "/nowhere"})
    assert done.returncode == 2 and done.stderr == (
        "kubectl zombiescope: kubectl is not installed, or not on the PATH\n"
    )


@pytest.fixture
def plugin(cluster: Cluster) -> Any:
    """By kubectl itself, which finds it on the PATH."""
    path = f"{PLUGIN.parent}:{cache_folder() / 'bin'}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)}

    def started(*argv: str) -> subprocess.Popen[str]:
        command = ["kubectl", "zombiescope", *argv]
        return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return started


@pytest.mark.alone
def test_nodes(cluster: Cluster, plugin: Any) -> None:
    cluster.node("table-sick")
    found = going_on()
    now = moment(time.time())
    told = [
        {"type": it.type, "status": it.status, "reason": it.reason, "message": it.message}
        | {"lastHeartbeatTime": now, "lastTransitionTime": now}
        for it in conditions("table-sick", STATES, [found])
    ]
    cluster.client.patch("/api/v1/nodes/table-sick/status", {"status": {"conditions": told}})
    cluster.node("table-new")
    with plugin("nodes") as running:
        out, complaint = running.communicate(timeout=60)
    assert running.returncode == 1, complaint
    lines = out.splitlines()
    assert lines[0].split() == ["NODE", "STARVED", "CAUSE", "SINCE", "SAYS"]
    (sick,) = [line for line in lines if line.startswith("table-sick ")]
    assert "True" in sick and "CrashLoopingUnit" in sick and "ecs.service" in sick
    assert any(line.startswith("table-new ") and "NoAgent" in line for line in lines)
    with plugin("nodes", "-o", "json") as running:
        told = json.loads(running.communicate(timeout=60)[0])
    assert {"node": "table-new", "starved": "Unknown"}.items() <= next(
        it for it in told if it["node"] == "table-new"
    ).items()


@pytest.mark.alone
def test_no_such_node_and_no_agent_are_said(cluster: Cluster, plugin: Any) -> None:
    with plugin("diagnose", "no-such-node") as running:
        _, complaint = running.communicate(timeout=60)
    assert running.returncode == 2 and '"no-such-node" not found' in complaint
    cluster.node("bare")
    with plugin("top", "bare") as running:
        _, complaint = running.communicate(timeout=60)
    assert running.returncode == 2 and "no agent runs on bare" in complaint


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pod_of_ours_is_removed_when_it_is_stopped(controlled: Cluster, plugin: Any, number: int) -> None:
    """No kubelet takes the pod here, so it waits for ever: until Ctrl-C."""
    cluster = controlled
    name = f"waits-{number}"
    cluster.node(name)
    until(lambda: cluster.kubectl("get", "serviceaccount", "default", expect=None).returncode == 0)
    running = plugin("diagnose", name)

    def ours() -> list[dict[str, Any]]:
        found = cluster.client.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}").body["items"]
        return [it for it in found if "deletionTimestamp" not in it["metadata"]]

    until(ours)
    (pod,) = ours()
    context = pod["spec"]["containers"][0]["securityContext"]
    assert "privileged" not in context and context["capabilities"]["drop"] == ["ALL"]
    time.sleep(1)
    running.send_signal(number)
    _, complaint = running.communicate(timeout=60)
    assert running.returncode != 0 and "Traceback" not in complaint and "removed pod" in complaint
    assert "the kubelet has not taken it yet" in complaint
    until(lambda: not ours())
