"""Draining by what a server answers: newer versions of evictions, odd and hostile lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.bad_server import bad_server, says

from zombiescope.kubernetes import drain as draining
from zombiescope.kubernetes.client import Client, Refused
from zombiescope.kubernetes.drain import NotDrained, drain, pods
from zombiescope.kubernetes.drain_command import main

NOT_FOUND = says(404, {"reason": "NotFound", "message": "gone"})
BUDGET = says(429, {"reason": "TooManyRequests", "message": "Cannot evict pod as it would violate the pod's budget"})
RESOURCES = says(200, {"resources": [{"name": "pods"}, {"name": "pods/eviction", "group": "policy", "version": "v1"}]})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "AGAIN", 0.05)
    monkeypatch.setattr(draining, "GONE", 0.05)


def pod(name: str, kind: str = "ReplicaSet", phase: str = "Running", **about: Any) -> dict[str, Any]:
    owners = [{"kind": kind, "controller": True}] if kind else []
    told = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": owners}
    return {"metadata": told | about, "status": {"phase": phase}}


def test_a_newer_server_a_budget_and_what_stays(tmp_path: Path) -> None:
    mirror = pod("mirror", "Node", annotations={"kubernetes.io/config.mirror": "x"})
    listed = [pod("web"), pod("ds", "DaemonSet"), mirror, pod("done", "Job", "Succeeded"), pod("ended", "", "Failed")]
    acts = (says(200, {"items": listed}), RESOURCES, BUDGET, says(201, {}), says(200, pod("web")), NOT_FOUND)
    said: list[str] = []
    with bad_server(tmp_path, *acts) as (server, access):
        drain(Client(access), "n1", 10.0, said.append)
    asked = [it.splitlines()[0] for it in server.got]
    assert asked[0].startswith("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=")
    assert [it for it in asked if it.startswith("POST")] == [
        "POST /api/v1/namespaces/ns/pods/web/eviction HTTP/1.1"
    ] * 2
    body = json.loads(server.got[2].partition("\n\n")[2])
    assert body["apiVersion"] == "policy/v1" and body["deleteOptions"]["preconditions"] == {"uid": "uid-web"}
    assert said[0] == "1 pods to evict, 4 stay" and said[-1] == "n1 is drained"
    assert any("waits: HTTP 429" in it and "budget" in it for it in said)


def test_a_budget_that_never_allows_it_ends_with_the_time(tmp_path: Path) -> None:
    acts = (says(200, {"items": [pod("web")]}), RESOURCES, BUDGET)
    with bad_server(tmp_path, *acts) as (server, access), pytest.raises(NotDrained, match=r"ns/web: HTTP 429.*budget"):
        drain(Client(access), "n1", 0.6, lambda _: None)
    assert 3 <= len(server.got) <= 20


def test_a_pod_that_does_not_go_is_named(tmp_path: Path) -> None:
    acts = (says(200, {"items": [pod("web")]}), RESOURCES, says(201, {}), says(200, pod("web")))
    with bad_server(tmp_path, *acts) as (_, access), pytest.raises(NotDrained, match="not gone yet: ns/web"):
        drain(Client(access), "n1", 0.5, lambda _: None)


def test_a_new_pod_of_the_same_name_is_another(tmp_path: Path) -> None:
    acts = (says(200, {"items": [pod("db-0", "StatefulSet")]}), RESOURCES, says(201, {}))
    with bad_server(tmp_path, *acts, says(200, pod("db-0", uid="uid-new"))) as (_, access):
        drain(Client(access), "n1", 5.0, lambda _: None)


def test_pages_are_followed_to_a_limit(tmp_path: Path) -> None:
    first = says(200, {"items": [pod("a")], "metadata": {"continue": "x&y=z/"}})
    with bad_server(tmp_path, first, says(200, {"items": [pod("b")]})) as (server, access):
        assert [it.name for it in pods(Client(access), "n1")] == ["a", "b"]
        assert "&continue=x%26y%3Dz%2F " in server.got[1].splitlines()[0]
    with bad_server(tmp_path, first) as (server, access), pytest.raises(NotDrained, match="more than"):
        list(pods(Client(access), "n1"))


@pytest.mark.parametrize("items", [None, "x", [None], [{"metadata": "x"}], [{"metadata": {"name": "a"}}]])
def test_odd_lists_evict_nobody_and_are_no_empty_node(tmp_path: Path, items: Any) -> None:
    acts = (says(200, {"items": items}), RESOURCES)
    with bad_server(tmp_path, *acts) as (server, access), pytest.raises(NotDrained, match=r"understood|without a name"):
        drain(Client(access), "n1", 1.0, lambda _: None)
    assert not any(it.startswith("POST") for it in server.got)


def test_a_name_stays_one_part_of_the_path(tmp_path: Path) -> None:
    evil = pod("../../secrets", namespace="a/b")
    with bad_server(tmp_path, says(200, {"items": [evil]}), RESOURCES, says(201, {}), NOT_FOUND) as (server, access):
        drain(Client(access), "n1", 5.0, lambda _: None)
    assert server.got[2].startswith("POST /api/v1/namespaces/a%2Fb/pods/..%2F..%2Fsecrets/eviction ")


def test_a_refusal_for_good_ends_it(tmp_path: Path) -> None:
    acts = (says(200, {"items": [pod("web")]}), RESOURCES, says(403, {"reason": "Forbidden"}))
    with bad_server(tmp_path, *acts) as (_, access), pytest.raises(Refused, match="HTTP 403"):
        drain(Client(access), "n1", 5.0, lambda _: None)


def test_the_command_says_what_is_wrong_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["cordon", "n1"]) == 2
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["drain", "n1"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "no such file" in said[0] and "not in a pod" in said[1]
