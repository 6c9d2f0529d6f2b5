"""What made a pod, as a real API server says it: asked only where that is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import PROJECT
from tests.kubernetes.cluster import Cluster
from tests.waiting import until

from zombiescope.cgroups.pod_owners import by_name
from zombiescope.kubernetes import pod_owners
from zombiescope.kubernetes.client import Client
from zombiescope.kubernetes.events import LONGEST, with_owner
from zombiescope.kubernetes.pod_owners import PodOwners, owner

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: owned, namespace: default}
spec:
  selector: {matchLabels: {app: owned}}
  template:
    metadata: {labels: {app: owned}}
    spec: {containers: [{name: web, image: localhost/none:1}]}
"""


def pod(kind: str, name: str, **labels: str) -> dict[str, Any]:
    its = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": True}]
    return {"metadata": {"ownerReferences": its, "labels": labels}}


def test_a_replica_set_with_a_hash_is_a_deployment_s() -> None:
    assert owner(pod("ReplicaSet", "web-7c5d", **{"pod-template-hash": "7c5d"})) == "Deployment web"
    assert owner(pod("ReplicaSet", "web-7c5d")) == "ReplicaSet web-7c5d"
    assert owner(pod("DaemonSet", "kube-proxy", **{"pod-template-hash": "7c5d"})) == "DaemonSet kube-proxy"
    assert owner({"metadata": {"name": "bare"}}) == ""
    assert owner(pod("Job", "\x1b[2J")).isprintable()


@given(st.recursive(st.none() | st.text() | st.booleans(), lambda it: st.lists(it) | st.dictionaries(st.text(), it)))
def test_any_answer_is_understood(answer: Any) -> None:
    assert owner({"metadata": {"ownerReferences": answer, "labels": answer}}) is not None
    assert owner({"metadata": answer}) is not None


def test_the_command_stays_at_the_end_of_a_message() -> None:
    said = with_owner(
        "container default/web/web keeps crashing; see: kubectl zombiescope diagnose n1", "Deployment web"
    )
    assert said == (
        "container default/web/web keeps crashing; owner: Deployment web; see: kubectl zombiescope diagnose n1"
    )
    long = with_owner("x" * 2000 + "; see: kubectl zombiescope diagnose n1", "Deployment web")
    assert len(long) <= LONGEST
    assert long.endswith("x…; owner: Deployment web; see: kubectl zombiescope diagnose n1")
    assert with_owner("as it was", "") == "as it was"


@pytest.mark.alone
@pytest.mark.long
def test_a_real_deployment(controlled: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = controlled
    until(lambda: cluster.kubectl("get", "serviceaccount", "default", expect=None).returncode == 0)
    cluster.kubectl("apply", "-f", "-", stdin=DEPLOYMENT)

    def pods() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cluster.client.get(
            "/api/v1/namespaces/default/pods?labelSelector=app%3Downed"
        ).body["items"]
        return found

    try:
        until(pods)
        name = pods()[0]["metadata"]["name"]
        assert by_name(name) == "Deployment owned", "as its name shows it"
        every = []
        for variant, made in (("base", ""), ("remediate", "Deployment owned")):
            cluster.kubectl("apply", "-k", str(PROJECT / "deploy" / "kustomize" / variant))
            may = ("auth", "can-i", "get", "pods", "--as=system:serviceaccount:zombiescope:zombiescope")
            until(lambda: (cluster.kubectl(*may, expect=None).returncode == 0) == bool(made), 30)  # noqa: B023
            client = Client(cluster.service_account("zombiescope", "zombiescope", tmp_path / variant))
            owners = PodOwners(client)
            every.append(owners)
            assert owners.of(f"default/{name}") == made == owners.of(f"default/{name}")
            assert owners.of("default/gone") == ""
            assert client.requests == (1 if not made else 3), "what is not allowed is not asked for"
        assert every[0].of(f"default/{name}") == "", "a right that is given later is noticed later"
        monkeypatch.setattr(pod_owners, "AGAIN", 0.0)
        assert every[0].of(f"default/{name}") == "Deployment owned"
        asked = cluster.asked("system:serviceaccount:zombiescope")
        assert not [it for it in asked if it["responseStatus"]["code"] == 403 and name in it["requestURI"]]
    finally:
        cluster.kubectl("delete", "deployment", "owned", "--wait=false")
        cluster.kubectl("delete", "clusterrolebinding", "zombiescope-remediate", "--ignore-not-found")
