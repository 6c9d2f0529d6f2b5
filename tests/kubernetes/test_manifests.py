"""What is shipped for clusters: both forms say the same, no right too many, settings that the agent takes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import CANNOT, PROJECT
from tests.kernels.packages import Lacking
from tests.kubernetes.binaries import program

from zombiescope.cli._agent_check import CAPABILITIES
from zombiescope.cli._agent_keys import KEYS

DEPLOY = PROJECT / "deploy"
CHART = DEPLOY / "helm" / "zombiescope"
ALL = ("--set", "podMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true,variant=remediate")
HELM_ONLY = ("helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by")
Objects = dict[tuple[str, str], dict[str, Any]]


def run(*argv: str, expect: int = 0) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + (done.stderr if expect else "")


def objects(text: str) -> Objects:
    return {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(text) if it}


def kustomized(variant: str) -> Objects:
    try:
        kubectl = program("kubectl")
    except Lacking:
        kubectl = shutil.which("kubectl") or pytest.skip(CANNOT + "kubectl is missing")
    return objects(run(kubectl, "kustomize", str(DEPLOY / "kustomize" / variant)))


def helm(*argv: str, expect: int = 0) -> str:
    try:
        found = program("helm")
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    return run(found, *argv, expect=expect)


def templated(*argv: str) -> Objects:
    return objects(helm("template", "zombiescope", str(CHART), "--namespace", "zombiescope", *argv))


def bare(it: Any) -> Any:
    """Without what Helm alone adds."""
    if isinstance(it, dict):
        return {key: bare(value) for key, value in it.items() if key not in (*HELM_ONLY, "checksum/config")}
    return [bare(one) for one in it] if isinstance(it, list) else it


def test_both_forms_are_the_same() -> None:
    base, chart = kustomized("base"), templated()
    del base["Namespace", "zombiescope"]  # Helm has --create-namespace
    for kind in ("Pod", "NetworkPolicy"):
        del chart[kind, "zombiescope-test"]
    assert bare(chart) == bare(base)


def test_the_rights_are_few() -> None:
    rules = kustomized("base")["ClusterRole", "zombiescope"]["rules"]
    allowed = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {("nodes", "get"), ("nodes/status", "patch")}
    assert kustomized("base")["Role", "zombiescope-events"]["rules"] == [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
    ]
    more = {("nodes", "patch"), ("pods", "get"), ("pods", "list"), ("pods/eviction", "create")}
    for found in (kustomized("remediate"), templated("--set", "variant=remediate")):
        rules = [rule for (kind, _), it in found.items() if kind == "ClusterRole" for rule in it["rules"]]
        assert {(one, verb) for rule in rules for one in rule["resources"] for verb in rule["verbs"]} == allowed | more


@pytest.mark.parametrize("where", ["kustomize", "helm"])
def test_the_pod_is_hardened(where: str) -> None:
    found = kustomized("base") if where == "kustomize" else templated()
    pod = found["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert not context["privileged"] and not context["allowPrivilegeEscalation"] and context["readOnlyRootFilesystem"]
    assert context["capabilities"]["drop"] == ["ALL"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    known = {name.removeprefix("CAP_") for _, name, _ in CAPABILITIES}
    assert set(context["capabilities"]["add"]) == known - {"SYS_ADMIN"}
    assert pod["hostPID"] and not pod.get("hostNetwork") and not pod.get("hostIPC")
    assert pod["tolerations"] == [{"operator": "Exists"}] and pod["priorityClassName"] == "system-node-critical"
    writable = [it["name"] for it in container["volumeMounts"] if not it.get("readOnly")]
    assert writable == ["recording", "tmp"]
    assert "memory" in container["resources"]["limits"] and "cpu" not in container["resources"]["limits"]


def test_the_host_s_network_is_a_choice() -> None:
    pod = templated("--set", "hostNetwork=true")["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]
    assert pod["hostNetwork"] and pod["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_the_agent_takes_its_settings() -> None:
    chosen = ("--set", "agent.every=30s,agent.log-format=text", "--set-json", 'agent.set=["saturated_core.FULL=0.8"]')
    for found in (kustomized("base"), templated(*chosen)):
        settings = tomllib.loads(found["ConfigMap", "zombiescope"]["data"]["agent.toml"])
        assert {name.replace("-", "_") for name in settings} <= {*KEYS, "set"}
        for name, value in settings.items():
            if name != "set":
                KEYS[name.replace("-", "_")].read(str(value))
    assert (
        settings["every"] == "30s"
        and settings["log-format"] == "text"
        and settings["set"] == ["saturated_core.FULL=0.8"]
    )


def test_the_extras_hold_what_we_ship() -> None:
    found = templated(*ALL)
    rules = yaml.safe_load((DEPLOY / "prometheus" / "zombiescope.rules.yml").read_text())
    assert found["PrometheusRule", "zombiescope"]["spec"] == rules
    boards = found["ConfigMap", "zombiescope-dashboards"]["data"]
    assert json.loads(boards["zombiescope-node.json"])["uid"]
    assert found["PodMonitor", "zombiescope"]["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"


@pytest.mark.parametrize(
    "wrong",
    [
        "variant=other",
        "image.pullPolicy=Perhaps",
        "image.digest=latest",
        "no.such=key",
        "seccompProfile=none",
        "capabilities[0]=sys_admin",
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    said = helm("template", "zombiescope", str(CHART), "--set", wrong, expect=1)
    assert "values don't meet the specifications" in said


def test_the_chart_is_linted() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("version", ["1.25", "1.29", "1.33", "1.37"])
def test_newer_servers_would_take_it(version: str, tmp_path: Path) -> None:
    """By their published schemas; kinds of others (monitoring.coreos.com) have none there."""
    known = [it for it in templated(*ALL).values() if not it["apiVersion"].startswith("monitoring.coreos.com")]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*kustomized("remediate").values(), *known]))
    said = run(str(Path(sys.executable).with_name("kubernetes-validate")), "-k", version, "--strict", str(file))
    assert "WARN" not in said, said  # of a kind that it does not know it only warns
