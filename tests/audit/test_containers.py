"""audit/containers: what real runtimes wrote is read; what is hostile, cut or not theirs never leads us astray."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.files import node_of, write
from tests.naming.programs import needs_root

from zombiescope.audit.containers import cgroup_path, container, ids
from zombiescope.audit.pod_logs import pods
from zombiescope.audit.stores import Store, stores
from zombiescope.core import Host, Unparsable, Unreadable

ID = "b757" * 16
UID = "11111111-2222-3333-4444-555555555555"

# The parts that are read of what containerd 1.6.20 (asked by CRI) and podman 4.3.1 wrote; docker's is made by hand.
CONTAINERD = {
    "ociVersion": "1.0.2-dev",
    "annotations": {
        "io.kubernetes.cri.container-name": "web",
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.image-name": "localhost/busy:1",
        "io.kubernetes.cri.sandbox-id": "bc5d" * 16,
        "io.kubernetes.cri.sandbox-name": "web-1",
        "io.kubernetes.cri.sandbox-namespace": "default",
        "io.kubernetes.cri.sandbox-uid": UID,
    },
    "linux": {"cgroupsPath": f"/kubepods/burstable/pod{UID}/{ID}"},
}
SANDBOX = {
    "annotations": {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-name": "web-1",
        "io.kubernetes.cri.sandbox-namespace": "default",
    },
    "linux": {"cgroupsPath": f"kubepods-burstable-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}"},
}
PODMAN = {
    "hostname": "7c697be45f7c",
    "annotations": {"io.container.manager": "libpod", "io.podman.annotations.autoremove": "FALSE"},
    "linux": {"cgroupsPath": f"/machine/libpod-{ID}"},
}
PODMAN_NAMES = [
    {
        "id": ID,
        "names": ["leaky"],
        "image": "b6a5",
        "metadata": '{"image-name":"localhost/busy:1","image-id":"b6a5","name":"leaky","created-at":1794784496}',
    }
]
CRIO = {
    "annotations": {
        "io.kubernetes.container.name": "web",
        "io.kubernetes.pod.name": "web-1",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.cri-o.ImageName": "quay.io/busy:1",
    },
    "linux": {"cgroupsPath": f"kubepods-pod{UID.replace('-', '_')}.slice:crio:{ID}"},
}
DOCKER = {
    "ID": ID,
    "Name": "/ecs-agent",
    "RestartCount": 7,
    "State": {"Running": True},
    "Config": {"Image": "amazon/amazon-ecs-agent:latest", "Labels": {}},
}
TASKS = "run/containerd/io.containerd.runtime.v2.task"
STORAGE = "var/lib/containers/storage/overlay-containers"


def root(folder: Path, files: dict[str, object]) -> Host:
    texts = {name: it if isinstance(it, str) else json.dumps(it) for name, it in files.items()}
    return node_of(folder, texts)


@pytest.mark.parametrize(
    ("files", "words", "cgroup"),
    [
        (
            {f"{TASKS}/k8s.io/{ID}/config.json": CONTAINERD},
            "container web of pod default/web-1, image localhost/busy:1 (containerd)",
            f"/kubepods/burstable/pod{UID}/{ID}",
        ),
        (
            {f"{TASKS}/k8s.io/{ID}/config.json": SANDBOX},
            "sandbox of pod default/web-1 (containerd)",
            "/kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
        ),
        (
            {f"{STORAGE}/{ID}/userdata/config.json": PODMAN, f"{STORAGE}/containers.json": PODMAN_NAMES},
            "container leaky, image localhost/busy:1 (podman)",
            f"/machine/libpod-{ID}",
        ),
        (
            {f"{STORAGE}/{ID}/userdata/config.json": CRIO},
            "container web of pod default/web-1, image quay.io/busy:1 (cri-o)",
            f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope",
        ),
        (
            {
                f"{TASKS}/moby/{ID}/config.json": {"linux": {"cgroupsPath": f"system.slice:docker:{ID}"}},
                f"var/lib/docker/containers/{ID}/config.v2.json": DOCKER,
            },
            "container ecs-agent, image amazon/amazon-ecs-agent:latest (docker)",
            f"/system.slice/docker-{ID}.scope",
        ),
        (
            {f"{TASKS}/moby/{ID}/config.json": {"linux": {"cgroupsPath": f"/docker/{ID}"}}},
            f"container {ID[:12]} (docker)",
            f"/docker/{ID}",
        ),
        (
            {f"var/lib/docker/containers/{ID}/config.v2.json": DOCKER},
            "container ecs-agent, image amazon/amazon-ecs-agent:latest (docker)",
            "",
        ),
    ],
    ids=["containerd", "sandbox", "podman", "cri-o", "docker", "docker without names", "docker, stopped"],
)
def test_runtimes(files: dict[str, object], words: str, cgroup: str, tmp_path: Path) -> None:
    host = root(tmp_path, files)
    store = stores(host)[0]
    assert ids(host, store) == ([ID], False)
    one = container(host, store, ID)
    assert (one.words, one.cgroup) == (words, cgroup)
    assert one.restarts == (7 if "ecs-agent" in words else None)


def supervisor(folder: Path, pid: int, program: str = "/usr/bin/conmon", mnt: int = 4026531832) -> None:
    """What the kernel says of a process besides its name: whose it is, where it is, and what it runs."""
    own, first = folder / f"proc/{pid}", folder / "proc/1/ns"
    (own / "ns").mkdir(parents=True)
    (own / "exe").symlink_to(program)
    (own / "status").write_text("Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\n")
    write(folder, {program.lstrip("/"): "", "proc/1/ns/": ""})
    for kind, number in (("mnt", mnt), ("pid", 4026531836)):
        (own / "ns" / kind).symlink_to(f"{kind}:[{number}]")
        if not (first / kind).is_symlink():
            (first / kind).symlink_to(f"{kind}:[{number}]")


def test_stores_are_also_found_by_their_supervisors(tmp_path: Path) -> None:
    needs_root()
    bundle = f"/home/u/own/overlay-containers/{ID}/userdata"
    host = root(
        tmp_path,
        {
            "proc/7/comm": "conmon\n",
            "proc/7/cmdline": f"/usr/bin/conmon\0-c\0{ID}\0-b\0{bundle}\0-n\0web\0",
            "proc/8/comm": "containerd-shim\n",
            "proc/9/comm": "conmon\n",
            "proc/9/cmdline": "conmon\0-b",
            "proc/10/comm": "conmon\n",
            "proc/10/cmdline": "conmon\0-b\0/etc/passwd/x/y\0",
            "proc/11/comm": "conmon\n",
            "proc/11/cmdline": f"conmon\0-b\0/home/u/evil-containers/{ID}/userdata\0",
            "proc/12/comm": "conmon\n",
            "proc/12/cmdline": f"conmon\0-b\0/home/u/evil-containers/{ID}/userdata\0",
            "proc/13/comm": "conmon\n",
            "proc/13/cmdline": f"conmon\0-b\0/home/u/evil-containers/{ID}/userdata\0",
            "proc/14/comm": "conmon\n",
            "proc/14/cmdline": f"conmon\0-b\0/home/u/evil-containers/{ID}/userdata\0",
            f"home/u/evil-containers/{ID}/userdata/config.json": PODMAN,
            f"home/u/own/overlay-containers/{ID}/userdata/config.json": PODMAN,
            f"data/state/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json": CONTAINERD,
        },
    )
    for pid in (7, 9, 10, 11):
        supervisor(tmp_path, pid)
    supervisor(tmp_path, 8, "/usr/bin/containerd-shim-runc-v2")
    (tmp_path / "proc/11/status").write_text("Name:\tconmon\nUid:\t1000\t1000\t1000\t1000\n")
    supervisor(tmp_path, 12, mnt=7)  # in a container
    supervisor(tmp_path, 13, "/usr/bin/sleep")
    supervisor(tmp_path, 14, "/home/u/conmon")
    (tmp_path / "home/u/conmon").chmod(0o666)
    (tmp_path / "proc/8/cwd").symlink_to(f"/data/state/io.containerd.runtime.v2.task/k8s.io/{ID}")
    assert stores(host) == [
        Store("storage", "/home/u/own/overlay-containers"),
        Store("containerd", "/data/state/io.containerd.runtime.v2.task/k8s.io"),
    ]
    assert stores(Host(str(tmp_path / "empty"), live=False)) == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "nul", "[" * 100_000, '"x"', "7", "1" * 10_000, '{"a":' * 50_000, '{"linux"'],
    ids=["empty", "cut", "a word", "deep", "text", "number", "digits", "deep objects", "cut in a name"],
)
def test_what_is_no_description_is_said(content: str, tmp_path: Path) -> None:
    host = root(tmp_path, {f"{TASKS}/k8s.io/{ID}/config.json": content})
    with pytest.raises(Unparsable):
        container(host, stores(host)[0], ID)


@pytest.mark.parametrize(
    "content",
    [{}, [], {"annotations": [], "linux": 7}, {"linux": {"cgroupsPath": ["x"]}, "annotations": {"nerdctl/name": 5}}],
)
@pytest.mark.parametrize("place", [f"{TASKS}/k8s.io/{ID}/config.json", f"{STORAGE}/{ID}/userdata/config.json"])
def test_what_has_other_types_is_a_container_without_a_name(content: object, place: str, tmp_path: Path) -> None:
    host = root(tmp_path, {place: content, f"{STORAGE}/containers.json": [{"id": ID, "names": 3, "metadata": "{"}, 7]})
    one = container(host, stores(host)[0], ID)
    assert (one.name, one.image, one.cgroup, one.pod) == ("", "", "", "")


def test_docker_with_other_types(tmp_path: Path) -> None:
    host = root(tmp_path, {f"var/lib/docker/containers/{ID}/config.v2.json": {"Config": [], "RestartCount": "many"}})
    one = container(host, stores(host)[0], ID)
    assert (one.words, one.restarts) == (f"container {ID[:12]} (docker)", None)


def test_too_large_is_not_read(tmp_path: Path) -> None:
    host = root(tmp_path, {f"{TASKS}/k8s.io/{ID}/config.json": " " * 2_000_000})
    with pytest.raises(Unreadable, match="larger"):
        container(host, stores(host)[0], ID)


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("/kubepods/pod1/x", "/kubepods/pod1/x"),
        ("system.slice:docker:x", "/system.slice/docker-x.scope"),
        (":libpod:x", "/system.slice/libpod-x.scope"),
        ("-.slice:crio:x", "/crio-x.scope"),
        ("a-b-c.slice:p:own.slice", "/a.slice/a-b.slice/a-b-c.slice/own.slice"),
        ("relative/path", ""),
        ("a:b:", ""),
        ("", ""),
    ],
)
def test_cgroup_path(told: str, path: str) -> None:
    assert cgroup_path(told) == path


def test_pods_and_restarts_from_names_of_logs(tmp_path: Path) -> None:
    top = f"var/log/pods/default_web-1_{UID}"
    host = root(
        tmp_path,
        {
            f"{top}/web/3.log": "",
            f"{top}/web/4.log": "",
            f"{top}/web/3.log.20250102-150405.gz": "",
            f"{top}/side/0.log": "",
            f"{top}/odd/x.log": "",
            f"{top}/odd/{'9' * 40}.log": "",
            f"{top}/file": "",
            "var/log/pods/not-a-pod/web/9.log": "",
            "var/log/pods/default_web_/web/9.log": "",
        },
    )
    (only,) = pods(host, [])
    assert (only.namespace, only.name, only.uid) == ("default", "web-1", UID)
    assert only.restarts == {"web": 4, "side": 0}
    with pytest.raises(Unreadable):
        list(pods(Host(str(tmp_path / "none"), live=False), []))


@pytest.mark.parametrize(
    ("said", "restarts"),
    [(0, 0), (1, 1), ((1 << 53) - 1, (1 << 53) - 1), (1 << 53, None), (-1, None), (1.5, None), (None, None)],
)
def test_restarts_are_a_count(said: object, restarts: int | None, tmp_path: Path) -> None:
    host = root(tmp_path, {f"var/lib/docker/containers/{ID}/config.v2.json": DOCKER | {"RestartCount": said}})
    assert container(host, stores(host)[0], ID).restarts == restarts


def test_of_two_names_that_podman_keeps_the_metadata_s_counts(tmp_path: Path) -> None:
    rows = [PODMAN_NAMES[0] | {"names": ["another"]}]
    host = root(tmp_path, {f"{STORAGE}/{ID}/userdata/config.json": PODMAN, f"{STORAGE}/containers.json": rows})
    assert container(host, stores(host)[0], ID).name == "leaky"
    rows[0]["metadata"] = "{}"
    (tmp_path / f"{STORAGE}/containers.json").write_text(json.dumps(rows))
    assert container(host, stores(host)[0], ID).name == "another"


def test_a_supervisor_that_names_no_whole_path_or_no_store_is_passed_over(tmp_path: Path) -> None:
    needs_root()
    for pid in (7, 8, 9):
        supervisor(tmp_path, pid)
    host = root(
        tmp_path,
        {
            **{f"proc/{pid}/comm": "conmon\n" for pid in (7, 8, 9)},
            "proc/7/cmdline": f"conmon\0-b\0own/overlay-containers/{ID}/userdata\0",
            "proc/8/cmdline": f"conmon\0-b\0/own/files/{ID}/userdata\0",
            "proc/9/cmdline": f"conmon\0-b\0/own/overlay-containers/{ID}/userdata\0",
            f"own/files/{ID}/userdata/config.json": PODMAN,
            f"own/overlay-containers/{ID}/userdata/config.json": PODMAN,
        },
    )
    assert stores(host) == [Store("storage", "/own/overlay-containers")]


def test_logs_that_only_begin_like_a_container_s_are_none(tmp_path: Path) -> None:
    top = f"var/log/pods/default_web-1_{UID}/web"
    host = root(tmp_path, {f"{top}/{name}": "" for name in ("1.log", "7.txt", "8", "x.log", "9.tar.log")})
    (only,) = pods(host, [])
    assert only.restarts == {"web": 1}


RAY = ["PATH=/bin", "RAY_CLUSTER_NAME=train-x7k2p", "RAY_NODE_TYPE_NAME=gpu-group", "REDIS_PASSWORD=hunter2"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (RAY, ", Ray cluster train-x7k2p (group gpu-group)"),
        (RAY[:2], ", Ray cluster train-x7k2p"),
        (RAY[2:], ""),
        (["RAY_CLUSTER_NAME=a\x1b[31m"], ""),
        (["RAY_CLUSTER_NAME=" + "x" * 64], ""),
        ([{}, None, 7], ""),
        ("RAY_CLUSTER_NAME=x", ""),
        (None, ""),
    ],
)
def test_kuberay_names_the_cluster_in_the_environment(variables: object, words: str, tmp_path: Path) -> None:
    bundle = CONTAINERD | {"process": {"env": variables}}
    host = root(tmp_path, {f"{TASKS}/k8s.io/{ID}/config.json": bundle})
    (found,) = [container(host, store, ID) for store in stores(host)]
    assert found.words == f"container web of pod default/web-1, image localhost/busy:1{words} (containerd)"
    assert "hunter2" not in repr(found)
