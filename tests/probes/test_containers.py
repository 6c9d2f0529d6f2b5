"""probes/containers: names by cgroup, those that went, restarts; little is read twice, and nothing is made up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.audit.test_containers import CONTAINERD, DOCKER, ID, STORAGE, TASKS, UID, root
from tests.probes.machine import told

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.probes import containers

BUNDLE = f"{TASKS}/k8s.io/{ID}/config.json"
SUBJECT = f"cgroup:/kubepods/burstable/pod{UID}/{ID}"


def test_containers_pods_and_restarts(tmp_path: Path) -> None:
    host = root(tmp_path, {BUNDLE: CONTAINERD, f"var/log/pods/default_web-1_{UID}/web/4.log": ""})
    assert told(containers, host) == {
        ("container_info", SUBJECT): 1,
        ("pod_info", f"pod:{UID}"): 1,
        ("container_restarts_total", "container:default/web-1/web"): 4,
        ("containers", "node"): 1,
    }
    texts = {it.what: it.text for it in containers.read(host) if isinstance(it, Reading)}
    assert texts["container_info"] == "container web of pod default/web-1, image localhost/busy:1 (containerd)"
    assert texts["container_restarts_total"] == "container web of pod default/web-1"


def test_docker_counts_restarts_itself(tmp_path: Path) -> None:
    host = root(tmp_path, {f"var/lib/docker/containers/{ID}/config.v2.json": DOCKER})
    assert told(containers, host) == {
        ("container_info", f"container:{ID}"): 1,
        ("container_restarts_total", "container:ecs-agent"): 7,
        ("containers", "node"): 1,
    }


def test_without_pods_restarts_are_unseen_not_none(tmp_path: Path) -> None:
    root(tmp_path, {BUNDLE: CONTAINERD})
    with containers.watch(Host(str(tmp_path))) as look:
        for _ in range(2):
            unseen = {it.what for it in look() if isinstance(it, Blind) and not it.subject}
            assert unseen == {"pod_info", "container_restarts_total"}


def test_what_docker_counts_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"var/lib/docker/containers/{ID}/config.v2.json"
    root(tmp_path, {file: DOCKER})
    monkeypatch.setattr(containers, "RENEWED", 0.0)
    with containers.watch(Host(str(tmp_path))) as look:
        assert [it.value for it in look() if it.what == "container_restarts_total" and isinstance(it, Reading)] == [7]
        root(tmp_path, {file: DOCKER | {"RestartCount": 9}})
        assert [it.value for it in look() if it.what == "container_restarts_total" and isinstance(it, Reading)] == [9]
        shutil.rmtree(tmp_path / file.rpartition("/")[0])
        assert [it.value for it in look() if it.what == "container_info" and isinstance(it, Reading)] == [0]


def test_a_container_that_went_is_told_once_more_and_one_that_is_known_is_not_read_again(tmp_path: Path) -> None:
    host = root(tmp_path, {BUNDLE: CONTAINERD})
    with containers.watch(Host(str(tmp_path))) as look:
        assert [it.value for it in look() if it.what == "container_info" and isinstance(it, Reading)] == [1]
        (tmp_path / BUNDLE).write_text("no longer what it was")
        assert [it.what for it in look() if isinstance(it, Reading)] == ["containers"], "it holds until it goes"
        shutil.rmtree(tmp_path / BUNDLE.rpartition("/")[0])
        assert [it.value for it in look() if it.what == "container_info" and isinstance(it, Reading)] == [0]
        assert [it.value for it in look() if it.what == "container_info" and isinstance(it, Reading)] == []
    assert told(containers, host)["containers", "node"] == 0


def test_a_storage_with_two_folders_for_one_is_read_where_it_is_described(tmp_path: Path) -> None:
    other = f"run/containers/storage/overlay-containers/{ID}/userdata"
    (tmp_path / other).mkdir(parents=True)
    host = root(tmp_path, {f"{STORAGE}/{ID}/userdata/config.json": CONTAINERD})
    assert told(containers, host)["container_info", SUBJECT] == 1


def test_many_new_ones_are_met_bit_by_bit(tmp_path: Path) -> None:
    many = 2 * containers.NEW + 7
    root(tmp_path, {f"{TASKS}/k8s.io/{place:064x}/config.json": CONTAINERD for place in range(many)})
    with containers.watch(Host(str(tmp_path))) as look:
        met = [sum(it.what == "container_info" and isinstance(it, Reading) for it in look()) for _ in range(4)]
    assert met == [containers.NEW, containers.NEW, 7, 0]


def test_one_that_is_not_understood_is_said_and_costs_no_other(tmp_path: Path) -> None:
    odd = f"{TASKS}/k8s.io/{'0' * 64}/config.json"
    seen = list(containers.read(root(tmp_path, {BUNDLE: CONTAINERD, odd: "{"})))
    assert [it.why for it in seen if isinstance(it, Blind) and it.what == "container_info"] == [
        "1 of 2 containers have a description that is not understood"
    ]
    assert any(it.subject == SUBJECT for it in seen)


def test_hostile_names_survive(tmp_path: Path) -> None:
    evil = json.loads(json.dumps(CONTAINERD))
    evil["annotations"]["io.kubernetes.cri.container-name"] = "\x1b[31m\n\udcff" + "x" * 5_000
    seen = [it for it in containers.read(root(tmp_path, {BUNDLE: evil})) if it.what == "container_info"]
    assert len(seen) == 1 and isinstance(seen[0], Reading) and len(seen[0].text) <= containers.LONGEST


def test_nothing_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(containers.read(Host(str(tmp_path), live=False)))
