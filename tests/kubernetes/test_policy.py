"""What a cluster's policy would ask of all that we start there: rules, what is allowed all the same and why, and that
each rule notices what it is for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from tests.kubernetes.test_manifests import ALL, kustomized, templated

from zombiescope.plugin.pods import Pod, _manifest

Object = dict[str, Any]
SECRET = ("secrets", "pods/exec", "pods/attach", "nodes/proxy", "serviceaccounts/token", "*")
MIGHTY = ("escalate", "bind", "impersonate", "*")
DANGEROUS = ("SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "DAC_OVERRIDE", "NET_RAW", "ALL")
# By rule and kind of object, with the reason: a rule that nothing breaks any more is removed from here.
ALLOWED = {
    ("host_pid", "agent"): "it sees the node's processes: that is what it is for",
    ("runs_as_root", "agent"): "files of other users and perf events; every capability beyond seven is dropped",
    ("host_path", "agent"): "the node's root, read-only, and the folder of its recording",
    ("token_mounted", "agent"): "it reports to the API server",
}


def pod_spec(it: Object) -> Object:
    spec = it.get("spec", {})
    return dict(spec["template"]["spec"]) if "template" in spec else dict(spec)


def containers(it: Object) -> list[Object]:
    return list(pod_spec(it).get("containers", ()))


def context(it: Object, container: Object, key: str) -> Any:
    return container.get("securityContext", {}).get(key, pod_spec(it).get("securityContext", {}).get(key))


def image_without_a_version(it: Object) -> Iterator[str]:
    yield from (one["image"] for one in containers(it) if one["image"].rpartition(":")[2] in ("latest", one["image"]))


def privileged(it: Object) -> Iterator[str]:
    for one in containers(it):
        if context(it, one, "privileged") or context(it, one, "allowPrivilegeEscalation") is not False:
            yield one["name"]


def writable_root(it: Object) -> Iterator[str]:
    yield from (one["name"] for one in containers(it) if not context(it, one, "readOnlyRootFilesystem"))


def capabilities(it: Object) -> Iterator[str]:
    for one in containers(it):
        told = context(it, one, "capabilities") or {}
        if told.get("drop") != ["ALL"]:
            yield f"{one['name']} drops not all"
        yield from (name for name in told.get("add", ()) if name in DANGEROUS)


def no_seccomp(it: Object) -> Iterator[str]:
    for one in containers(it):
        if (context(it, one, "seccompProfile") or {}).get("type") != "RuntimeDefault":
            yield one["name"]


def runs_as_root(it: Object) -> Iterator[str]:
    yield from (one["name"] for one in containers(it) if not context(it, one, "runAsNonRoot"))


def host_pid(it: Object) -> Iterator[str]:
    yield from ("hostPID" for _ in range(1) if pod_spec(it).get("hostPID"))


def host_network_or_ipc(it: Object) -> Iterator[str]:
    yield from (name for name in ("hostNetwork", "hostIPC") if pod_spec(it).get(name))


def host_path(it: Object) -> Iterator[str]:
    yield from (one["hostPath"]["path"] for one in pod_spec(it).get("volumes", ()) if "hostPath" in one)


def writable_host_path(it: Object) -> Iterator[str]:
    """Beside the one folder that the recording is in."""
    paths = {one["name"]: one["hostPath"]["path"] for one in pod_spec(it).get("volumes", ()) if "hostPath" in one}
    for one in (mount for container in containers(it) for mount in container.get("volumeMounts", ())):
        if one["name"] in paths and not one.get("readOnly") and paths[one["name"]] != "/var/lib/zombiescope":
            yield paths[one["name"]]


def no_limits(it: Object) -> Iterator[str]:
    for one in containers(it):
        told = one.get("resources", {})
        if not {"cpu", "memory"} <= set(told.get("requests", ())) or "memory" not in told.get("limits", ()):
            yield one["name"]


def token_mounted(it: Object) -> Iterator[str]:
    spec = it if it["kind"] == "ServiceAccount" else pod_spec(it)
    yield from (
        "automountServiceAccountToken" for _ in range(1) if spec.get("automountServiceAccountToken") is not False
    )


def no_probes(it: Object) -> Iterator[str]:
    for one in containers(it):
        if it["kind"] == "DaemonSet" and not {"livenessProbe", "readinessProbe"} <= set(one):
            yield one["name"]


def mighty_rights(it: Object) -> Iterator[str]:
    for rule in it.get("rules", ()):
        for resource in rule["resources"]:
            yield from (resource for _ in range(1) if resource in SECRET)
            yield from (f"{verb} {resource}" for verb in rule["verbs"] if verb in MIGHTY)


PODS = ("DaemonSet", "Pod")
RULES: dict[Callable[[Object], Iterator[str]], tuple[str, ...]] = {
    **dict.fromkeys((image_without_a_version, privileged, writable_root, capabilities, no_seccomp, runs_as_root), PODS),
    **dict.fromkeys((host_pid, host_network_or_ipc, host_path, writable_host_path, no_limits, no_probes), PODS),
    token_mounted: (*PODS, "ServiceAccount"),
    mighty_rights: ("Role", "ClusterRole"),
}


@cache
def every() -> dict[str, list[Object]]:
    """All that we start or grant, by what it is."""
    debug = _manifest(Pod("default", "zombiescope-debug-1", ours=True), "n1", "zombiescope:0.2.0")
    objects = [*kustomized("remediate").values(), *templated(*ALL).values()]
    found: dict[str, list[Object]] = {"agent": [debug | {"kind": "Pod"}], "other": []}
    for it in objects:
        found["agent" if it["kind"] == "DaemonSet" else "other"].append(it)
    return found


def broken(rule: Callable[[Object], Iterator[str]], it: Object) -> list[str]:
    return list(rule(it)) if it["kind"] in RULES[rule] else []


@pytest.mark.parametrize("rule", RULES, ids=lambda it: it.__name__)
def test_the_rules_hold(rule: Callable[[Object], Iterator[str]]) -> None:
    for kind, found in every().items():
        complaints = [(it["kind"], it["metadata"]["name"], broken(rule, it)) for it in found if broken(rule, it)]
        if (rule.__name__, kind) in ALLOWED:
            assert complaints, f"{rule.__name__} holds now: it need not be allowed"
        else:
            assert not complaints


@cache
def shipped() -> Object:
    return kustomized("base")["DaemonSet", "zombiescope"]


def spoilt(change: Callable[[Object, Object], object]) -> Object:
    """The agent's DaemonSet with something wrong: `change` gets its pod and its container."""
    it = copy.deepcopy(shipped())
    spec = it["spec"]["template"]["spec"]
    change(spec, spec["containers"][0])
    return it


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (image_without_a_version, lambda _, one: one.update(image="zombiescope")),
        (image_without_a_version, lambda _, one: one.update(image="zombiescope:latest")),
        (privileged, lambda _, one: one["securityContext"].update(privileged=True)),
        (privileged, lambda _, one: one["securityContext"].pop("allowPrivilegeEscalation")),
        (writable_root, lambda _, one: one["securityContext"].pop("readOnlyRootFilesystem")),
        (capabilities, lambda _, one: one["securityContext"]["capabilities"]["add"].append("SYS_ADMIN")),
        (capabilities, lambda _, one: one["securityContext"]["capabilities"].pop("drop")),
        (no_seccomp, lambda _, one: one["securityContext"].update(seccompProfile={"type": "Unconfined"})),
        (host_network_or_ipc, lambda pod, _: pod.update(hostNetwork=True)),
        (host_network_or_ipc, lambda pod, _: pod.update(hostIPC=True)),
        (writable_host_path, lambda _, one: one["volumeMounts"][0].pop("readOnly")),
        (no_limits, lambda _, one: one["resources"].pop("limits")),
        (no_probes, lambda _, one: one.pop("readinessProbe")),
    ],
)
def test_each_rule_notices(rule: Callable[[Object], Iterator[str]], change: Callable[[Object, Object], object]) -> None:
    assert broken(rule, spoilt(change))


@pytest.mark.parametrize(("resource", "verb"), [("secrets", "get"), ("pods/exec", "create"), ("pods", "*")])
def test_rights_too_many_are_noticed(resource: str, verb: str) -> None:
    role = {"kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]}
    assert broken(mighty_rights, role)
    assert broken(token_mounted, {"kind": "ServiceAccount"})
