"""Where container runtimes keep their containers: the usual folders, and those of running supervisors.

containerd's shim runs in the bundle of its container; conmon (podman, CRI-O) has the bundle on its command line. So a
runtime with other folders (k3s, a test) is found as well. Only programs of the host that root runs are believed: a
process that is merely called conmon, as root in a container may call its own, would choose what is read, and claim the
cgroups of others.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from zombiescope.audit.running import is_the_hosts, running, words_of
from zombiescope.core import Host, Unreadable

_CONTAINERD = "io.containerd.runtime.v2.task"
_STORAGE = "-containers"  # after the name of the storage driver: overlay, vfs, btrfs
USUAL = (
    f"/run/containerd/{_CONTAINERD}",
    f"/run/k3s/containerd/{_CONTAINERD}",
    f"/run/docker/containerd/daemon/{_CONTAINERD}",
    f"/var/snap/microk8s/common/run/containerd/{_CONTAINERD}",
    f"/run/containers/storage/overlay{_STORAGE}",
    f"/var/lib/containers/storage/overlay{_STORAGE}",
    "/var/lib/docker/containers",
)
_SUPERVISORS = ("containerd-shim", "conmon")  # as the kernel cuts containerd-shim-runc-v2
MOST = 50  # stores: a node has one or two


@dataclass(frozen=True, slots=True)
class Store:
    """A folder with one folder for each container."""

    kind: str  # containerd, storage (podman and CRI-O), docker
    path: str


def stores(host: Host) -> list[Store]:
    """Every store that exists."""
    paths = [*USUAL, *_supervised(host)]
    return [store for path in dict.fromkeys(paths) for store in _at(host, path)][:MOST]


def _at(host: Host, path: str) -> list[Store]:
    try:
        names, _ = host.first_names(path, MOST)
    except Unreadable:
        return []
    if os.path.basename(path) == _CONTAINERD:  # one folder for each of its namespaces: k8s.io, moby, default
        return [Store("containerd", f"{path}/{namespace}") for namespace in names]
    return [Store("storage" if path.endswith(_STORAGE) else "docker", path)]


def _supervised(host: Host) -> list[str]:
    paths = []
    with suppress(Unreadable):  # those that were found before there were too many processes
        for pid, name in running(host, _SUPERVISORS):
            # …/overlay-containers/ID/userdata, …/io.containerd.runtime.v2.task/NAMESPACE/ID
            bundle = _bundle(host, pid, name)
            store = os.path.dirname(os.path.dirname(bundle))
            named = bundle.startswith("/") and store.endswith((_STORAGE, f"/{_CONTAINERD}"))
            # Asked last: should its number be another's by now, then neither is believed.
            if named and is_the_hosts(host, pid, name):
                paths.append(store)
    return paths


def _bundle(host: Host, pid: int, name: str) -> str:
    """Where a supervisor says that its container is described; empty if it does not."""
    if name == "conmon":
        words = words_of(host, pid)
        return words[words.index("-b") + 1] if "-b" in words[:-1] else ""
    try:
        return host.link(f"/proc/{pid}/cwd")
    except Unreadable:
        return ""
