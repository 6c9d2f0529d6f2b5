"""owners: every runtime's way to name a cgroup is read, names come from readings, families name those that went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes import node, read

from zombiescope.cgroups.families import family
from zombiescope.cgroups.owners import Owner, by_path, owner, owners
from zombiescope.cgroups.pod_owners import by_name, with_owner
from zombiescope.core import Reading

ID = "5f0c" * 16
OTHER = "81aa" * 16
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
SYSTEMD_UID = UID.replace("-", "_")
SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/docker/{ID}", Owner(kind="container", name=ID, runtime="docker")),
        (f"/system.slice/docker-{ID}.scope", Owner(kind="container", name=ID, runtime="docker")),
        (f"/ecs/1234-task/{ID}", Owner(kind="container", name=ID, runtime="docker")),
        (
            f"/system.slice/docker.service/docker/{ID}",
            Owner(kind="container", name=ID, runtime="docker", unit="docker.service"),
        ),
        (f"{SLICE}/cri-containerd-{ID}.scope", Owner(kind="container", name=ID, runtime="containerd", pod=UID)),
        (
            f"/system.slice/containerd.service/kubepods-pod{SYSTEMD_UID}.slice:cri-containerd:{ID}",
            Owner(kind="container", name=ID, runtime="containerd", pod=UID, unit="containerd.service"),
        ),
        (f"{SLICE}/crio-{ID}.scope", Owner(kind="container", name=ID, runtime="cri-o", pod=UID)),
        (f"{SLICE}/crio-conmon-{ID}.scope", Owner(kind="container", name=ID, runtime="cri-o", pod=UID)),
        (f"/machine.slice/libpod-{ID}.scope", Owner(kind="container", name=ID, runtime="podman")),
        (f"/libpod_parent/libpod-{ID}/init.scope", Owner(kind="container", name=ID, runtime="podman")),
        (f"/kubepods/burstable/pod{UID}/{ID}", Owner(kind="container", name=ID, pod=UID)),
        (f"/kubepods/burstable/pod{UID}", Owner(kind="pod", name=UID, pod=UID)),
        (SLICE, Owner(kind="pod", name=UID, pod=UID)),
        (f"/kubepods/pod{'ab12' * 8}", Owner(kind="pod", name="ab12" * 8, pod="ab12" * 8)),  # a static pod
        (f"/nomad.slice/share.slice/{UID}.web.scope", Owner(kind="container", name=f"{UID}.web", runtime="nomad")),
        ("/lxc.payload.db1/system.slice", Owner(kind="container", name="db1", runtime="lxc")),
        ("/lxc/db1", Owner(kind="container", name="db1", runtime="lxc")),
        ("/user.slice/user-0.slice/session-5.scope", Owner(kind="session", name="5")),
        ("/system.slice/ecs.service", Owner(kind="unit", name="ecs.service")),
        ("/zombiescope", Owner(kind="cgroup", name="/zombiescope")),
        ("/", Owner(kind="cgroup", name="/")),
    ],
)
def test_a_path_tells_whose_it_is(path: str, expected: Owner) -> None:
    assert by_path(path) == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"/docker/{ID}", "container 5f0c5f0c5f0c (docker)"),
        (f"/kubepods/pod{UID}/{ID}", f"container 5f0c5f0c5f0c of pod {UID}"),
        ("/docker/<id>", "containers (docker)"),
        ("/system.slice/super.service/<id>", "containers in unit super.service"),
        ("/kubepods/burstable/pod<uid>/<id>", "containers"),
        ("/kubepods/burstable/pod<uid>", "pods"),
        ("/user.slice/session-5.scope", "login session 5"),
        ("/system.slice/ecs.service", "unit ecs.service"),
        ("/anything/else", ""),
    ],
)
def test_and_says_so_in_words(path: str, words: str) -> None:
    assert by_path(path).words == words


@given(st.text(max_size=200))
def test_no_path_is_too_odd(path: str) -> None:
    assert by_path("/" + path).kind in ("container", "pod", "session", "unit", "cgroup")


def info(path: str, words: str, value: float = 1, at: float = 0.0) -> Reading:
    return read("container_info", f"cgroup:{path}", value, at, words)


WEB, AGENT = "container web of pod default/web-1, image nginx (containerd)", "container agent, image ecs (docker)"


def test_names_come_from_readings_by_path_or_by_id() -> None:
    timeline = node([info(f"/kubepods/pod{UID}/{ID}", WEB)])
    assert owner(timeline, f"cgroup:/kubepods/pod{UID}/{ID}") == WEB
    assert owner(timeline, f"cgroup:/kubepods/pod{UID}/{ID}/inner") == WEB
    assert owner(timeline, f"cgroup:{SLICE}/cri-containerd-{ID}.scope") == WEB, "the id tells, however it is spelled"
    assert owner(timeline, f"cgroup:/docker/{OTHER}") == "container 81aa81aa81aa (docker)"
    assert [it.text for it in owners(timeline, f"cgroup:/kubepods/pod{UID}/{ID}")] == [WEB]
    assert owners(timeline, "cgroup:/docker") == []


def test_a_pod_is_named_though_its_container_is_not() -> None:
    timeline = node([read("pod_info", f"pod:{UID}", 1, 0, "pod default/web-1")])
    assert (
        owner(timeline, f"cgroup:{SLICE}") == owner(timeline, f"cgroup:{SLICE}/crio-{ID}.scope") == "pod default/web-1"
    )


def test_of_a_family_those_that_went_are_named() -> None:
    gone, stays = f"/docker/{ID}", f"/docker/{OTHER}"
    subject = f"family:{family(gone)}"
    assert owner(node([info(stays, WEB)]), subject) == WEB
    timeline = node([info(stays, WEB), info(gone, AGENT), info(gone, AGENT, 0, 5.0)])
    assert owner(timeline, subject) == AGENT
    many = [info(f"/docker/{place:064x}", f"container {place % 5} (docker)", 0) for place in range(10)]
    assert owner(node(many), "family:/docker/<id>") == "container 0 (docker), container 1 (docker) and 3 more"


@pytest.mark.parametrize(
    ("pod", "made"),
    [
        ("coredns-66bff467f8-p7q8x", "Deployment coredns"),
        ("api-server-7c5ddbdf54-x2x4z", "Deployment api-server"),
        ("backup-27123456-kx7zq", "CronJob backup"),
        ("kube-proxy-7xk2p", "DaemonSet, Job or ReplicaSet kube-proxy"),
        ("web-0", ""),
        ("web", ""),
        ("etcd-node-a", ""),
        ("odd-ffffffffff-abcde", ""),  # neither a hash of 32 bits nor letters that are drawn
        ("odd-ffffffffff-bcdfg", "DaemonSet, Job or ReplicaSet odd-ffffffffff"),  # 9,999,999,999 has more than 32 bits
    ],
)
def test_what_made_a_pod_shows_in_its_name(pod: str, made: str) -> None:
    assert by_name(pod) == made
    words = f"container web of pod default/{pod}, image nginx (containerd)"
    beside = f" ({made}, by its name)" if made else ""
    assert with_owner(words) == f"container web of pod default/{pod}{beside}, image nginx (containerd)"


@given(st.integers(10**6, 2**32 - 1), st.text("bcdfghjklmnpqrstvwxz2456789", min_size=5, max_size=5))
def test_every_hash_that_a_deployment_can_have_is_known(number: int, drawn: str) -> None:
    """As SafeEncodeString writes its digits: the letter at the place of the digit's code, counted round."""
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    written = "".join(alphabet[ord(digit) % len(alphabet)] for digit in str(number))
    assert by_name(f"web-{written}-{drawn}") == "Deployment web"
