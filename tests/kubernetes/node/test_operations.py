"""What an operator does with a real node, and what happens to it: upgrade, fix, hung kubelet, server away, rights and
token withdrawn, drain, rollback, removal. Looks follow each other sooner here than by default.
"""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.kubernetes.images import IMAGE
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import NAMESPACE, SOONER, Whole, deployment
from tests.kubernetes.node.test_incident import CRASHER, JOB, SOON

from zombiescope.kubernetes import drain as draining
from zombiescope.kubernetes.drain import NotDrained, cordon, drain, uncordon

pytestmark = pytest.mark.alone
AWAY = 60.0  # seconds that the API server is killed for
GUARDED = (
    deployment("guarded", f"containers: [{{name: work, image: {IMAGE}, command: [sleep, infinity]}}]")
    + """---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: guarded, namespace: default}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: guarded}}
"""
)


@pytest.fixture(scope="module")
def sooner(whole: Whole) -> Whole:
    """Upgraded with Helm 4 to other settings while something crashes: the new pod knows of it."""
    whole.apply(CRASHER)
    whole.apply(JOB)
    whole.until(lambda: whole.starved().get("reason") == "CrashLoopingContainer", SOON)
    whole.upgrade(SOONER)
    return whole


def test_an_upgraded_agent_knows_what_goes_on(sooner: Whole) -> None:
    sooner.until(lambda: sooner.starved()["status"] == "True", 60)
    begun = [it for it in sooner.cluster.events(NAME) if it["reason"] == "CrashLoopingContainer"]
    assert len(begun) == 1, "it is the same finding after the restart"


def test_the_fix_and_what_else_the_page_names(sooner: Whole, zombiescope: Any) -> None:
    page = sooner.page
    print(page.run("kubectl zombiescope fix NODE", expect=1))
    script = page.run("kubectl zombiescope fix NODE --apply", expect=None)
    assert all(line.startswith("#") for line in script.splitlines()), "a container has no safe plan of commands"
    page.run("kubectl zombiescope diagnose NODE --seconds", expect=None)
    page.run("kubectl zombiescope record NODE")
    told = zombiescope("diagnose", str(sooner.folder / "rec"), "--format", "json", expect=None)
    assert told.returncode in (0, 1, 3) and '"verdicts"' in told.stdout, told.stderr
    page.run("kubectl zombiescope flame NODE")
    assert ";" in (sooner.folder / "folded").read_text().splitlines()[0]
    assert "cpu" in page.run("kubectl zombiescope top NODE").lower()
    with page.started("kubectl zombiescope view NODE") as viewing:
        try:
            assert viewing.stdout is not None
            url = viewing.stdout.readline().strip()
            with urlopen(url, timeout=60) as answer:
                assert b"<html" in answer.read().lower()
        finally:
            viewing.send_signal(signal.SIGINT)
            viewing.communicate(timeout=60)
    # What an operator of a Deployment does: take it away.
    sooner.cluster.kubectl("delete", "deployment", "crasher", "--wait=true")
    sooner.cluster.kubectl("delete", "job", "well", "--wait=true")
    sooner.notes["fixed"] = time.monotonic()


def test_hours_are_gathered_through_kubectl(sooner: Whole, tmp_path: Path, zombiescope: Any) -> None:
    """The agent listens on its pod's loopback address alone. It is too young to have an hour that is over."""
    done = zombiescope(
        "fleet", "gather", "--kubernetes", "--store", str(tmp_path), "--format", "json", env=sooner.page.environment
    )
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    assert (told["recording"], told["node"], told["why not"]) == (NAME, NAME, "")


def test_a_kubelet_that_hangs_does_not_cost_the_condition(sooner: Whole) -> None:
    before = sooner.starved()
    sooner.kubelet.process.send_signal(signal.SIGSTOP)
    try:
        sooner.until(lambda: sooner.cluster.conditions(NAME)["Ready"]["status"] != "True", 90)
        assert sooner.starved()["lastHeartbeatTime"] >= before["lastHeartbeatTime"]
    finally:
        sooner.kubelet.process.send_signal(signal.SIGCONT)
    sooner.until(sooner.kubelet.ready, 90)
    assert sooner.starved().get("type") == "ZombiescopeStarved"


def test_a_server_that_was_killed_is_not_stormed_and_hears_all(sooner: Whole) -> None:
    """Tries while it is away cannot be counted by it: those that come right after its return can."""
    sooner.cluster.signal(signal.SIGKILL)
    sooner.cluster.stop()
    time.sleep(AWAY)
    sooner.cluster.start()
    began = time.time()
    sooner.until(sooner.kubelet.ready, 90)
    time.sleep(20)
    asked = sooner.requests(began)
    print(f"{len(asked)} requests in {time.time() - began:.0f} s after the server was away for {AWAY:.0f} s")
    assert len(asked) <= 10, [it["requestURI"] for it in asked]
    assert "Traceback" not in sooner.logs()
    assert lost(sooner) == 0


def test_the_condition_clears_after_the_fix(sooner: Whole) -> None:
    if "fixed" not in sooner.notes:
        sooner.cluster.kubectl("delete", "deployment", "crasher", "--wait=true", "--ignore-not-found")
        sooner.cluster.kubectl("delete", "job", "well", "--wait=true", "--ignore-not-found")
        sooner.notes["fixed"] = time.monotonic()
    sooner.until(lambda: sooner.starved().get("reason") != "CrashLoopingContainer", 300)
    print(f"cleared {time.monotonic() - sooner.notes['fixed']:.0f} s after the fix at the latest")
    sooner.until(lambda: any(it["reason"] == "CrashLoopingContainerEnded" for it in sooner.cluster.events(NAME)), 30)
    assert "CrashLoopingContainer" not in sooner.page.run("kubectl zombiescope nodes", expect=None)


def test_rights_that_are_withdrawn_are_said_and_used_again(sooner: Whole) -> None:
    binding = sooner.cluster.kubectl("get", "clusterrolebinding", "zombiescope", "-o", "json").stdout
    sooner.cluster.kubectl("delete", "clusterrolebinding", "zombiescope")
    began = time.time()
    heartbeat = sooner.starved()["lastHeartbeatTime"]
    try:
        # A new pod has something to say at once: that it runs.
        sooner.cluster.kubectl("delete", "pod", "-n", NAMESPACE, sooner.agent["metadata"]["name"], "--wait=true")
        sooner.until(lambda: refused(sooner, began, 403), 90)
        time.sleep(20)
        print(f"{len(refused(sooner, began, 403))} requests refused in {time.time() - began:.0f} s")
        assert len(refused(sooner, began, 403)) <= 12
        assert "does the service account have its role?" in sooner.logs()
    finally:
        sooner.cluster.kubectl("create", "-f", "-", stdin=anew(binding))
    sooner.until(lambda: sooner.starved()["lastHeartbeatTime"] > heartbeat, 120)


def test_a_token_that_is_revoked_makes_no_storm_and_loses_nothing(sooner: Whole) -> None:
    """The account is deleted and made anew: the token that the pod has is no longer known."""
    account = sooner.cluster.kubectl("get", "serviceaccount", "zombiescope", "-n", NAMESPACE, "-o", "json").stdout
    before = sooner.starved()
    sooner.cluster.kubectl("delete", "serviceaccount", "zombiescope", "-n", NAMESPACE)
    began = time.time()
    sooner.cluster.kubectl("create", "-f", "-", stdin=anew(account))
    sooner.apply(CRASHER)  # news, which cannot be told
    sooner.until(lambda: refused(sooner, began, 401), 150)
    time.sleep(20)
    print(f"{len(refused(sooner, began, 401))} requests refused in {time.time() - began:.0f} s")
    assert len(refused(sooner, began, 401)) <= 14 and "HTTP 401" in sooner.logs()
    assert sooner.starved()["reason"] == before["reason"], "what was said stays"
    sooner.cluster.kubectl("rollout", "restart", "daemonset/zombiescope", "-n", NAMESPACE)
    sooner.cluster.kubectl("rollout", "status", "daemonset/zombiescope", "-n", NAMESPACE, "--timeout=110s")
    sooner.until(lambda: sooner.starved().get("reason") == "CrashLoopingContainer", SOON)
    sooner.cluster.kubectl("delete", "deployment", "crasher", "--wait=false")


def test_a_drain_honours_a_budget(sooner: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "AGAIN", 1.0)
    client = sooner.cluster.client
    sooner.cluster.kubectl("delete", "deployment", "crasher", "--ignore-not-found", "--wait=true")
    sooner.cluster.kubectl("delete", "job", "well", "--ignore-not-found", "--wait=true")
    sooner.apply(GUARDED)
    sooner.cluster.kubectl("rollout", "status", "deployment/guarded", "--timeout=90s")
    before = client.get(f"/api/v1/nodes/{NAME}").body["spec"]
    cordon(client, NAME)
    with pytest.raises(NotDrained, match="guarded"):
        drain(client, NAME, 10.0, lambda _: None)
    assert len(sooner.pods("app=guarded")) == 1, "the budget holds"
    sooner.cluster.kubectl("delete", "poddisruptionbudget", "guarded")
    drain(client, NAME, 90.0, lambda _: None)
    assert not [it for it in sooner.pods("app=guarded") if it["spec"].get("nodeName") == NAME]
    assert sooner.agent, "a DaemonSet's pod stays"
    uncordon(client, NAME)
    sooner.until(lambda: client.get(f"/api/v1/nodes/{NAME}").body["spec"] == before, 30)
    sooner.cluster.kubectl("delete", "deployment", "guarded", "--wait=false")


def test_alerts_as_the_page_says(sooner: Whole) -> None:
    """Without the operator's kinds it is refused before anything is changed. With them this API server, of 1.20 built
    by a newer Go, crashes; what is rendered is compared in test_manifests."""
    with sooner.page.started("helm upgrade") as upgrading:
        _, complaint = upgrading.communicate(timeout=120)
    assert upgrading.returncode != 0 and "ensure CRDs are installed first" in complaint, complaint
    sooner.page.run("kubectl wait", expect=None if sooner.starved()["status"] == "True" else 0)


def test_rolled_back_with_the_other_helm_and_removed_as_the_page_says(sooner: Whole) -> None:
    assert "quiet" in _config(sooner)
    peak = sooner.kubelet.memory(sooner.agent["metadata"]["uid"])
    assert peak["oom_kills"] == 0, peak
    sooner.helm("rollback", "zombiescope", "1", "--wait", "--timeout", "180s", program_name="helm3")
    assert "quiet" not in _config(sooner)
    sooner.page.run("helm uninstall")
    sooner.until(lambda: sooner.starved()["reason"] == "AgentStopped", 60)
    assert sooner.starved()["status"] == "Unknown"
    sooner.page.run("kubectl patch node NODE")
    assert not sooner.starved() and "Ready" in sooner.cluster.conditions(NAME)


def refused(whole: Whole, since: float, code: int) -> list[dict[str, Any]]:
    """Of the agent's requests since then."""
    return [it for it in whole.requests(since) if it["responseStatus"]["code"] == code]


def anew(told: str) -> str:
    """An object as it was, to be created once more: without what the server adds."""
    found = json.loads(told)
    kept = ("name", "namespace", "labels", "annotations")
    found["metadata"] = {name: value for name, value in found["metadata"].items() if name in kept}
    found.pop("secrets", None)
    return json.dumps(found)


def lost(whole: Whole) -> float:
    """Events that the agent has given up."""
    found = re.findall(
        r"^zombiescope_events_undelivered_total\{[^}]*kubernetes[^}]*\} (\S+)", whole.agent_says("/metrics"), re.M
    )
    return sum(map(float, found))


def _config(whole: Whole) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/zombiescope"
    return str(whole.cluster.client.get(path).body["data"])
