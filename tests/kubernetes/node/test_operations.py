"""What an operator does with a real node, and what happens to it: upgrade, fix, hung kubelet, server away, drain, token
and rights withdrawn, rollback, removal. Looks follow each other sooner here than by default, and the agent may drain.
"""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any

import pytest
from tests.kubernetes.images import IMAGE
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import NAMESPACE, SOONER, UNIT, Whole, crasher, deployment, few
from tests.kubernetes.node.test_incident import SOON, commands

pytestmark = pytest.mark.alone
AWAY = 60.0  # seconds that the API server is killed for
STORM = 15.0  # seconds in which requests are counted: five tries, the pause being twice as long after each
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
def sooner(crashing: Whole) -> Whole:
    """Upgraded with Helm 4 to other settings while something crashes: the new pod knows of it."""
    crashing.until(lambda: crashing.begun("crasher"), SOON)
    crashing.upgrade(f"{SOONER},variant=remediate")
    return crashing


@pytest.fixture(scope="module")
def fixed(sooner: Whole) -> Whole:
    """What an operator does: type on the node what `fix` says, and take the Deployment away."""
    sooner.until(lambda: sooner.starved()["status"] == "True", 60)
    for words in commands(sooner.page.run("kubectl zombiescope fix NODE --apply", expect=None)):
        sooner.systemd.systemctl(*words[1:])
    sooner.away("deployment", "crasher")
    sooner.away("job", "well")
    sooner.notes["fixed"] = time.monotonic()
    return sooner


def test_an_upgraded_agent_knows_what_goes_on(sooner: Whole) -> None:
    sooner.until(lambda: sooner.starved()["status"] == "True", 60)
    (event,) = sooner.begun("crasher")
    assert event["count"] >= 1, "it is the same finding after the restart"


def test_events_name_what_the_api_server_knows_of_a_pod(sooner: Whole) -> None:
    """As the variant may ask for it: the event is counted up, with other words."""
    sooner.until(lambda: "; owner: Deployment crasher; see: kubectl" in sooner.begun("crasher")[0]["message"], 90)


def test_a_kubelet_that_hangs_does_not_cost_the_condition(fixed: Whole) -> None:
    before = fixed.starved()
    fixed.kubelet.process.send_signal(signal.SIGSTOP)
    try:
        fixed.until(lambda: fixed.cluster.conditions(NAME)["Ready"]["status"] != "True", 90)
        assert fixed.starved()["lastHeartbeatTime"] >= before["lastHeartbeatTime"]
    finally:
        fixed.kubelet.process.send_signal(signal.SIGCONT)
    fixed.until(fixed.kubelet.ready, 90)
    assert fixed.starved().get("type") == "ZombiescopeStarved"


def test_a_server_that_was_killed_is_not_stormed_and_hears_all(fixed: Whole) -> None:
    """The finding ends while nobody can be told. Tries of that time cannot be counted by the server: those that come
    after its return can."""
    fixed.cluster.signal(signal.SIGKILL)
    fixed.cluster.stop()
    time.sleep(AWAY)
    fixed.cluster.start()
    began = time.time()
    fixed.until(fixed.kubelet.ready, 90)
    # That the pod is gone is seen within a minute; a quiet minute follows, then a look.
    for reason in ("CrashLoopingContainerEnded", "CrashLoopingUnitEnded"):
        fixed.until(lambda reason=reason: fixed.events(reason, ""), 300)  # type: ignore[misc]
    fixed.until(lambda: not any(it in fixed.starved()["message"] for it in ("crasher", UNIT)), 30)
    print(f"cleared {time.monotonic() - fixed.notes['fixed']:.0f} s after the fix: {fixed.starved()['message']}")
    assert fixed.starved()["status"] == "False" or fixed.outdone()
    asked, passed = fixed.requests(began), time.time() - began
    print(f"{len(asked)} requests in {passed:.0f} s after the server was away for {AWAY:.0f} s")
    few(asked, passed)
    assert "Traceback" not in fixed.logs()
    assert lost(fixed) == 0
    assert "crasher" not in fixed.page.run("kubectl zombiescope nodes", expect=None)


def test_a_drain_honours_a_budget(fixed: Whole) -> None:
    """By the agent, with its own rights: refused until the budget allows it."""
    client = fixed.cluster.client
    fixed.apply(GUARDED)
    fixed.cluster.kubectl("rollout", "status", "deployment/guarded", "--timeout=90s")
    before = client.get(f"/api/v1/nodes/{NAME}").body["spec"]
    with fixed.page.started("kubectl zombiescope drain NODE") as draining:
        try:
            assert draining.stdout is not None
            said: list[str] = []
            while "disruption budget" not in "".join(said):
                said.append(draining.stdout.readline())
                assert said[-1], said
            (guarded,) = fixed.pods("app=guarded")
            assert guarded["spec"]["nodeName"] == NAME, "the budget holds"
            fixed.cluster.kubectl("delete", "poddisruptionbudget", "guarded")
            rest, complaint = draining.communicate(timeout=120)
        finally:
            draining.kill()
    assert draining.returncode == 0, complaint
    assert f"{NAME} is drained" in rest and "to reboot it, on the node" in complaint
    assert not [it for it in fixed.pods("app=guarded") if it["spec"].get("nodeName") == NAME]
    assert fixed.agent, "a DaemonSet's pod stays"
    fixed.page.run("kubectl zombiescope drain NODE --undo")
    fixed.until(lambda: client.get(f"/api/v1/nodes/{NAME}").body["spec"] == before, 30)
    fixed.cluster.kubectl("delete", "deployment", "guarded", "--wait=false")


def test_a_revoked_token_and_withdrawn_rights_make_no_storm_and_lose_nothing(fixed: Whole) -> None:
    """The account is deleted and made anew: the token that the pod has is no longer known. A new pod has a new one, but
    no role yet."""
    account = fixed.cluster.kubectl("get", "serviceaccount", "zombiescope", "-n", NAMESPACE, "-o", "json").stdout
    binding = fixed.cluster.kubectl("get", "clusterrolebinding", "zombiescope", "-o", "json").stdout
    before, began = fixed.starved(), time.time()
    fixed.cluster.kubectl("delete", "serviceaccount", "zombiescope", "-n", NAMESPACE)
    fixed.cluster.kubectl("create", "-f", "-", stdin=anew(account))
    fixed.apply(crasher("second", 1, "DaemonSet"))  # news, which cannot be told
    not_stormed(fixed, began, 401)
    assert "HTTP 401" in fixed.logs()
    assert fixed.starved()["reason"] == before["reason"], "what was said stays"
    fixed.cluster.kubectl("delete", "clusterrolebinding", "zombiescope")
    began = time.time()
    try:
        fixed.cluster.kubectl("rollout", "restart", "daemonset/zombiescope", "-n", NAMESPACE)
        not_stormed(fixed, began, 403)
        assert "does the service account have its role?" in fixed.logs()
    finally:
        fixed.cluster.kubectl("create", "-f", "-", stdin=anew(binding))
    fixed.until(lambda: fixed.starved()["status"] == "True", SOON)
    assert fixed.starved()["reason"] == "CrashLoopingContainer" or fixed.outdone()
    fixed.until(lambda: fixed.begun("second"), 60)
    assert len(fixed.begun("second")) == 1
    assert lost(fixed) == 0
    fixed.cluster.kubectl("delete", "daemonset", "second", "--wait=false")


def test_alerts_as_the_page_says(fixed: Whole) -> None:
    """Without the operator's kinds it is refused before anything is changed. With them this API server, of 1.20 built
    by a newer Go, crashes; what is rendered is compared in test_manifests."""
    with fixed.page.started("helm upgrade") as upgrading:
        _, complaint = upgrading.communicate(timeout=120)
    assert upgrading.returncode != 0 and "ensure CRDs are installed first" in complaint, complaint
    fixed.page.run("kubectl wait", expect=None if fixed.starved()["status"] == "True" else 0)


def test_rolled_back_with_the_other_helm_and_removed_as_the_page_says(fixed: Whole) -> None:
    assert "quiet" in _config(fixed)
    peak = fixed.kubelet.memory(fixed.agent["metadata"]["uid"])
    assert peak["oom_kills"] == 0, peak
    fixed.helm("rollback", "zombiescope", "1", "--wait", "--timeout", "180s", program_name="helm3")
    assert "quiet" not in _config(fixed)
    fixed.page.run("helm uninstall")
    fixed.until(lambda: fixed.starved()["reason"] == "AgentStopped", 60)
    assert fixed.starved()["status"] == "Unknown"
    fixed.page.run("kubectl patch node NODE")
    assert not fixed.starved() and "Ready" in fixed.cluster.conditions(NAME)


def not_stormed(whole: Whole, since: float, code: int) -> None:
    """Refused with this code, and not asked more than a few times after that."""

    def refused() -> list[dict[str, Any]]:
        return [it for it in whole.requests(since) if it["responseStatus"]["code"] == code]

    whole.until(refused, 150)
    first = time.monotonic()
    time.sleep(STORM)
    print(f"{len(refused())} requests refused with {code} in {time.monotonic() - first:.0f} s")
    assert len(refused()) <= 12


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
