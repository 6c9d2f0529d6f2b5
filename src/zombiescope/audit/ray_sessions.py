"""Where Ray runs on this node and keeps its logs: every raylet and control service (GCS), also in containers.

Sessions are found where Ray puts them by default, on the host and in a pod's volumes (as KubeRay does), which can be
read after Ray has exited. The command lines of Ray's processes name the folder too; then a container's files are read
through /proc/PID/root, which disappears with the process, and with it the last lines of a container that exits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.audit.log_tail import Place, identity
from zombiescope.audit.running import cgroup_of, running, words_of
from zombiescope.core import Host, Unreadable

_OWN, _LATEST = "/tmp/ray", "session_latest"
_PODS = "/var/lib/kubelet/pods"
MOST_PODS = 500  # searched for volumes, 20 µs each
MOST_VOLUMES = 100  # of one pod: it has a few
MOST = 20  # sessions: a node of many small Ray containers has one each


@dataclass(slots=True)
class Session:
    """The logs of one session, and those of its nodes that run here."""

    logs: Place
    nodes: list[RayNode] = field(default_factory=list)


class Sessions(NamedTuple):
    """Those that were found, and why there may be more."""

    found: list[Session]
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A raylet: what Ray calls a node."""

    id: str
    pid: int
    cgroup: str
    address: str


def sessions(host: Host) -> Sessions:
    """Every session whose logs can be read. Raises Unreadable if there is none."""
    found: dict[
        tuple[int, int], Session
    ] = {}  # a folder may be reached in several ways: the first one outlives the process
    missed = None
    left_out: list[str] = []
    for folder in _usual(host, left_out):
        try:
            # The link is absolute and made by Ray's user: its last part is the name of a folder beside it.
            logs = f"{folder}/{os.path.basename(host.link(f'{folder}/{_LATEST}'))}/logs"
            _meet(found, Place(host.root, logs, logs))
        except Unreadable as error:
            missed = missed or error
    for pid, name in _processes(host, left_out):
        options = dict(word[2:].split("=", 1) for word in words_of(host, pid) if word.startswith("--") and "=" in word)
        logs, inside = options.get("log_dir", ""), f"/proc/{pid}/root"
        try:
            session = _meet(found, Place(host.real(inside, follow=False), logs, f"{inside}{logs}"))
        except Unreadable:
            continue
        if name == "raylet" and options.get("node_id"):
            address = options.get("node_ip_address", "")
            session.nodes.append(RayNode(id=options["node_id"], pid=pid, cgroup=cgroup_of(host, pid), address=address))
    if not found and missed is not None:
        raise missed
    if len(found) > MOST:
        left_out.append(f"{len(found):,} Ray sessions, of which {MOST} are read")
    return Sessions(list(found.values())[:MOST], "; ".join(left_out))


def _usual(host: Host, left_out: list[str]) -> Iterator[str]:
    """Folders where Ray may keep its sessions: its default one, and each emptyDir volume."""
    yield _OWN
    try:
        pods, more = host.first_names(_PODS, MOST_PODS)
    except Unreadable:
        return
    if more:
        left_out.append(f"{_PODS}: more than {MOST_PODS} pods, of which so many were searched")
    for pod in pods:
        volumes = f"{_PODS}/{pod}/volumes/kubernetes.io~empty-dir"
        try:
            names, more = host.first_names(volumes, MOST_VOLUMES)
        except Unreadable:
            continue
        if more:
            left_out.append(f"{volumes}: more than {MOST_VOLUMES} volumes, of which so many were searched")
        yield from [f"{volumes}/{name}" for name in names]


def _meet(found: dict[tuple[int, int], Session], place: Place) -> Session:
    return found.setdefault(identity(place), Session(place))


def _processes(host: Host, left_out: list[str]) -> Iterator[tuple[int, str]]:
    try:
        yield from running(host, ("raylet", "gcs_server"))
    except Unreadable as error:
        if host.status("/proc") is not None:  # a copy of the logs alone has no processes
            left_out.append(str(error))
