"""Which containers a node has, by name, image and pod: read from the files of their runtimes, without an API.

Every runtime writes an OCI bundle (config.json) with the container's cgroup and, for pods, its identity; podman's and
CRI-O's names are in containers.json beside the bundles, docker's in config.v2.json. The CRI socket would say the same.
The files belong to the node, but users choose names and images in them: sizes, counts and types are checked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from zombiescope.audit.stores import Store
from zombiescope.core import Host, Unparsable, Unreadable

LARGEST = 1 << 20  # bytes of one description: a bundle has 3 to 15 KB, more with very many mounts
MOST = 2_000  # containers in one store: ten times a full node
SANDBOX = "POD"  # as kubelet has always called the container that only holds a pod's namespaces
_DOCKER = "/var/lib/docker/containers"
_RAY = ("RAY_CLUSTER_NAME", "RAY_NODE_TYPE_NAME")
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,62}", re.ASCII)  # as a label's value is
# The annotations of containerd's CRI, CRI-O, dockershim and cri-dockerd.
_ANNOTATIONS = {
    "name": ("io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"),
    "namespace": ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
    "pod": ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"),
    "image": ("io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "io.kubernetes.cri-o.Image"),
    "type": ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container. What is not known is empty."""

    id: str
    cgroup: str  # its path in every hierarchy
    runtime: str
    source: str
    name: str = ""
    image: str = ""
    pod: str = ""  # namespace/name
    ray: str = ""  # the Ray cluster that KubeRay made it for, and its group of workers
    restarts: int | None = None  # as the runtime counts them, where it does

    @property
    def words(self) -> str:
        """For people; without the id, so that a container that is created again and again stays one."""
        what = f"container {self.name or self.id[:12]}" if self.name != SANDBOX else "sandbox"
        of = f" of pod {self.pod}" if self.pod else ""
        image = f", image {self.image}" if self.image else ""
        ray = f", Ray cluster {self.ray}" if self.ray else ""
        return f"{what}{of}{image}{ray} ({self.runtime})"


def ids(host: Host, store: Store) -> tuple[list[str], bool]:
    """The containers in a store, without the files beside them (locks, containers.json); and whether it has more."""
    names, more = host.first_names(store.path, 2 * MOST)
    found = [name for name in names if "." not in name]
    return found[:MOST], more or len(found) > MOST


def container(host: Host, store: Store, name: str) -> Container:
    """One container of a store. Raises Unreadable if it is gone, Unparsable if its file is malformed."""
    if store.kind == "docker":
        return _docker(host, store.path, name)
    path = f"{store.path}/{name}" + ("/userdata" if store.kind == "storage" else "") + "/config.json"
    bundle = _json(host, path)
    cgroup = cgroup_path(_text(bundle, "linux", "cgroupsPath"))
    if store.path.endswith("/moby"):  # docker's own: docker keeps the names
        try:
            return replace(_docker(host, _DOCKER, name), cgroup=cgroup, source=path)
        except Unreadable:
            return Container(id=name, cgroup=cgroup, runtime="docker", source=path)
    notes = {key: _first(bundle, keys) for key, keys in _ANNOTATIONS.items()}
    runtime = "containerd"
    if store.kind == "storage":
        runtime = "cri-o" if notes["type"] else "podman"
    if runtime == "podman":
        notes["name"], notes["image"] = _podman(host, store.path, name)
    return Container(
        id=name,
        cgroup=cgroup,
        runtime=runtime,
        name=SANDBOX if notes["type"] == "sandbox" else notes["name"],
        image=notes["image"],
        pod=f"{notes['namespace']}/{notes['pod']}" if notes["pod"] else "",
        ray=_ray(_at(bundle, "process", "env")),
        source=path,
    )


def _ray(variables: Any) -> str:
    """As KubeRay names it in the environment, from the labels ray.io/cluster and ray.io/group. A bundle has no labels.

    No other variable is looked at: some hold passwords.
    """
    found = {}
    for it in variables[:MOST] if isinstance(variables, list) else ():
        name, _, value = it.partition("=") if isinstance(it, str) else ("", "", "")
        if name in _RAY and _WORD.fullmatch(value):
            found[name] = value
    cluster, group = (found.get(name, "") for name in _RAY)
    return cluster + (f" (group {group})" if cluster and group else "")


def _podman(host: Host, store: str, name: str) -> tuple[str, str]:
    """Name and image, which podman's bundle does not hold."""
    path = f"{store}/containers.json"
    try:
        rows = _json(host, path)
    except Unreadable:
        return "", ""
    for row in rows if isinstance(rows, list) else []:
        if _text(row, "id") == name:
            try:
                known = json.loads(_text(row, "metadata") or "{}")
            except (ValueError, RecursionError):
                known = {}
            names = _at(row, "names")
            first = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
            return _text(known, "name") or first, _text(known, "image-name")
    return "", ""


def _docker(host: Host, store: str, name: str) -> Container:
    path = f"{store}/{name}/config.v2.json"
    known = _json(host, path)
    labels = _at(known, "Config", "Labels")
    namespace, pod = (_text(labels, f"io.kubernetes.pod.{key}") for key in ("namespace", "name"))
    restarts = _at(known, "RestartCount")
    return Container(
        id=name,
        cgroup="",
        runtime="docker",
        name=_text(labels, "io.kubernetes.container.name") or _text(known, "Name").lstrip("/"),
        image=_text(known, "Config", "Image"),
        pod=f"{namespace}/{pod}" if pod else "",
        source=path,
        restarts=restarts if isinstance(restarts, int) and 0 <= restarts < 1 << 53 else None,
    )


# /kubepods/burstable/podUID/ID
# kubepods-burstable-podUID.slice:cri-containerd:ID
def cgroup_path(said: str) -> str:
    """The path of a bundle's cgroup; empty if it is relative to something unknown.

    With systemd's cgroup driver it says slice, prefix and name, and a slice lies in the slices that its dashes name
    (systemd.slice(5)).
    """
    if said.startswith("/"):
        return said.rstrip("/")
    slice_, prefix, name = parts if len(parts := said.split(":")) == 3 else ("", "", "")
    if not name:
        return ""
    words = (slice_ or "system.slice").removesuffix(".slice").split("-")
    slices = ["-".join(words[: place + 1]) + ".slice" for place in range(len(words))] if any(words) else []
    scope = name if name.endswith(".slice") else f"{prefix}-{name}.scope"
    return "/" + "/".join([*slices, scope])


def _json(host: Host, path: str) -> Any:
    text = host.read(path, most=LARGEST)
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        raise Unparsable(path, 1, text) from None
    if not isinstance(known, dict | list):
        raise Unparsable(path, 1, text)
    return known


def _first(bundle: Any, keys: tuple[str, ...]) -> str:
    return next((found for key in keys if (found := _text(bundle, "annotations", key))), "")


def _text(known: Any, *keys: str) -> str:
    found = _at(known, *keys)
    return found if isinstance(found, str) else ""


def _at(known: Any, *keys: str) -> Any:
    """The value at the end of some keys; None if anything on the way is malformed."""
    for key in keys:
        known = known.get(key) if isinstance(known, dict) else None
    return known
