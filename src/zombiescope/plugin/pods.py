"""The pod that looks at a node: the agent that runs there, or one of ours that is removed afterwards."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.plugin.kubectl import Kubectl, talk

LABEL = "app.kubernetes.io/name=zombiescope"
NAMESPACE = "zombiescope"  # as deploy/ and docs/kubernetes.md have it
DAEMONSET = "zombiescope"  # and its service account; Helm calls both RELEASE-zombiescope, if that has another name
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # of objects and nodes: a DNS subdomain
CAPABILITIES = ("BPF", "DAC_READ_SEARCH", "NET_ADMIN", "PERFMON", "SYS_NICE", "SYS_PTRACE", "SYSLOG")
PATIENCE = 120.0  # seconds for an image to be pulled and a pod to start
LONGEST = 3600  # seconds after which the cluster ends the pod by itself, should we not
EACH = 1.0  # seconds between looks at it


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    ours: bool = False  # started for this look, and removed after it

    def run(self, *argv: str) -> tuple[str, ...]:
        """The command line that runs zombiescope in it."""
        return self.command("zombiescope", *argv)

    def command(self, *argv: str) -> tuple[str, ...]:
        """The command line that runs any program in it; never with a terminal, which it would write to as it likes."""
        return ("exec", "--namespace", self.namespace, self.name, "--container", "agent", "--", *argv)


@dataclass(frozen=True, slots=True)
class Installed:
    """Where our agents run, and which DaemonSet they belong to; its service account has the same name."""

    namespace: str = NAMESPACE
    daemonset: str = DAEMONSET


def agent(kubectl: Kubectl, installed: Installed, node: str) -> Pod | None:
    """The running agent of a node."""
    found = agents(kubectl, installed, f"spec.nodeName={node},")
    return next((pod for where, pod in found if where == node), None)


def agents(kubectl: Kubectl, installed: Installed, only: str = "") -> list[tuple[str, Pod]]:
    """Every running agent, by its node's name; `only` narrows it by fields of pods.

    Anybody who may make a pod can give it our label, so the label only narrows the list.
    """
    where = ("--namespace", installed.namespace, "--selector", LABEL)
    fields = ("--field-selector", f"{only}status.phase=Running")
    found = []
    for it in _list(kubectl.json("get", "pods", *where, *fields), "items"):
        about, spec = (_shape(it, key) for key in ("metadata", "spec"))
        name, node = str(about.get("name")), str(spec.get("nodeName"))
        if why := _why_not_ours(about, spec, installed):
            talk(f"pod {installed.namespace}/{name} on {node} has the label of an agent, but {why}: left alone")
        elif _NAME.fullmatch(name) and _NAME.fullmatch(node):
            found.append((node, Pod(installed.namespace, name)))
    return found


def _why_not_ours(about: Mapping[str, Any], spec: Mapping[str, Any], installed: Installed) -> str:
    """Why a pod is no agent of ours; empty if it is one."""
    if about.get("namespace") != installed.namespace:
        return "it is in another namespace"
    owners = [_shape(it) for it in _list(about, "ownerReferences")]
    wanted = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": installed.daemonset, "controller": True}
    if not any(wanted.items() <= it.items() for it in owners):
        return f"it does not belong to DaemonSet {installed.daemonset}"
    if spec.get("serviceAccountName") != installed.daemonset:
        return f"it does not run with service account {installed.daemonset}"
    names = [_shape(it).get("name") for it in _list(spec, "containers")]
    return "" if "agent" in names else "it has no container agent"


def _list(told: Mapping[str, Any], key: str) -> list[Any]:
    found = told.get(key)
    return found if isinstance(found, list) else []


def _shape(told: object, key: str = "") -> Mapping[str, Any]:
    """A mapping, or what it has under a key; an empty one for anything else."""
    if key and isinstance(told, dict):
        told = told.get(key)
    return told if isinstance(told, dict) else {}


def check_node(kubectl: Kubectl, node: str) -> None:
    """A UserError for a node that is not there; a word about one that is not ready."""
    if not _NAME.fullmatch(node):
        raise UserError(f"{harmless(node)!r} is not the name of a node")
    told = kubectl.json("get", "node", node)
    listed = [_shape(it) for it in _list(_shape(told, "status"), "conditions")]
    ready = [it for it in listed if it.get("type") == "Ready"]
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
