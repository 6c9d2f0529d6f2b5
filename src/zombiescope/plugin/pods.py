"""The pod that looks at a node: the agent that runs there, or one of ours that is removed afterwards."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.plugin.kubectl import Kubectl, talk

LABEL = "app.kubernetes.io/name=zombiescope"
CAPABILITIES = ("BPF", "DAC_READ_SEARCH", "NET_ADMIN", "PERFMON", "SYS_NICE", "SYS_PTRACE", "SYSLOG")
PATIENCE = 120.0  # seconds for an image to be pulled and a pod to start
LONGEST = 3600  # seconds after which the cluster ends the pod by itself, should we not
EACH = 1.0  # seconds between looks at it


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    ours: bool = False  # started for this look, and removed after it

    def run(self, *argv: str, terminal: bool = False) -> tuple[str, ...]:
        """The command line that runs zombiescope in it."""
        return self.command("zombiescope", *argv, terminal=terminal)

    def command(self, *argv: str, terminal: bool = False) -> tuple[str, ...]:
        """The command line that runs any program in it."""
        how = ("-it",) if terminal else ()
        return ("exec", *how, "--namespace", self.namespace, self.name, "--container", "agent", "--", *argv)


def agent(kubectl: Kubectl, node: str) -> Pod | None:
    """The running agent of a node."""
    return next((pod for _, pod in agents(kubectl, f"spec.nodeName={node},")), None)


def agents(kubectl: Kubectl, only: str = "") -> list[tuple[str, Pod]]:
    """Every running agent, by its node's name; `only` narrows it by fields of pods."""
    where = ("--all-namespaces", "--selector", LABEL, "--field-selector", f"{only}status.phase=Running")
    listed = kubectl.json("get", "pods", *where).get("items")
    found = []
    for it in listed if isinstance(listed, list) else ():
        about, spec = (it.get(key, {}) if isinstance(it, dict) else {} for key in ("metadata", "spec"))
        if any(one.get("name") == "agent" for one in spec.get("containers", [])):
            found.append((str(spec.get("nodeName")), Pod(str(about.get("namespace")), str(about.get("name")))))
    return found


def check_node(kubectl: Kubectl, node: str) -> None:
    """A UserError for a node that is not there; a word about one that is not ready."""
    told = kubectl.json("get", "node", node)
    ready = [it for it in told.get("status", {}).get("conditions", []) if it.get("type") == "Ready"]
    if not ready or ready[0].get("status") != "True":
        talk(f"{node} is not Ready: its kubelet may not answer")


@contextmanager
def debug_pod(kubectl: Kubectl, node: str, image: str, namespace: str) -> Iterator[Pod]:
    """A pod with the same view as the agent's, until the end, whatever ends us; Ctrl-C too."""
    pod = Pod(namespace, f"zombiescope-debug-{secrets.token_hex(4)}", ours=True)
    try:
        kubectl.text("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(_manifest(pod, node, image)))
        talk(f"no agent runs on {node}: started pod {namespace}/{pod.name}")
        _await_running(kubectl, pod, node)
        yield pod
    finally:
        with suppress(UserError):
            kubectl.text(
                *("delete", "pod", "--namespace", namespace, pod.name),
                *("--ignore-not-found", "--wait=false", "--grace-period=1"),
            )
            talk(f"removed pod {namespace}/{pod.name}")


def _await_running(kubectl: Kubectl, pod: Pod, node: str) -> None:
    deadline, said = time.monotonic() + PATIENCE, ""
    while True:
        status = kubectl.json("get", "pod", "--namespace", pod.namespace, pod.name).get("status", {})
        if status.get("phase") == "Running":
            return
        why = _waits_for(status)
        if why != said:
            talk(f"{pod.name}: {why}")
            said = why
        if why.startswith(("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainer")):
            raise UserError(f"the pod on {node} cannot start: {why}")
        if status.get("phase") in ("Failed", "Succeeded"):
            raise UserError(f"the pod on {node} ended at once: {harmless(str(status.get('message') or why))}")
        if time.monotonic() > deadline:
            raise UserError(f"the pod on {node} did not start in {PATIENCE:.0f} s: {why}")
        time.sleep(EACH)


def _waits_for(status: Mapping[str, Any]) -> str:
    for it in status.get("containerStatuses", []):
        waiting = it.get("state", {}).get("waiting") or {}
        if waiting:
            return harmless(f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip(), most=200)
    for it in status.get("conditions", []):
        if it.get("status") != "True" and it.get("message"):
            return harmless(str(it["message"]), most=200)
    return f"{harmless(str(status.get('phase', 'Pending')), most=40)}: the kubelet has not taken it yet"


def _manifest(pod: Pod, node: str, image: str) -> dict[str, Any]:
    container = {
        "name": "agent",
        "image": image,
        "command": ["sleep", str(LONGEST)],
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        "resources": {"requests": {"cpu": "20m", "memory": "200Mi"}, "limits": {"memory": "600Mi"}},
        "volumeMounts": [
            {"name": "host", "mountPath": "/host", "readOnly": True, "mountPropagation": "HostToContainer"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "labels": {"app.kubernetes.io/name": "zombiescope-debug"}},
        "spec": {
            "nodeName": node,
            "hostPID": True,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "activeDeadlineSeconds": LONGEST,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}, {"name": "tmp", "emptyDir": {}}],
        },
    }
