"""Who owns a cgroup: what its path alone shows, and names and images where a probe has read them.

The paths are those that docker, containerd, CRI-O, podman, kubelet (both its cgroup drivers), Amazon ECS, LXC, Nomad
and systemd make. A family (/docker/<id>) is read like a path, with the generated parts in brackets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from zombiescope.cgroups.families import family
from zombiescope.cgroups.pod_owners import with_owner
from zombiescope.core.model import Finding, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.core.words import harmless

SHOWN = 2  # owners of one family that are named; of more, only the number is given
_ID = r"([0-9a-f]{64}|<id>)"
_UID = r"([0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-f]{32}|<uid>|<id>)"
# Where a container's own name is in a path, by runtime. A runtime's helper process (conmon) counts as its container.
_CONTAINERS = tuple(
    (runtime, re.compile(pattern))
    for runtime, pattern in (
        ("containerd", rf"(?:^|[/:])cri-containerd[-:]{_ID}"),
        ("cri-o", rf"/crio-(?:conmon-)?{_ID}"),
        ("podman", rf"/libpod-(?:conmon-|payload-)?{_ID}"),
        ("docker", rf"/(?:docker[-/]|ecs/.*/){_ID}"),
        ("nomad", rf"/nomad(?:\.slice)?/(?:[^/]+\.slice/)?((?:{_UID[1:-1]})\.[^/]+?)(?:\.scope)?(?:/|$)"),
        ("lxc", r"/lxc(?:\.payload|\.monitor)?[./]([^/]+)"),
        ("", rf"/{_ID}(?:/|$)"),
    )
)
_POD = re.compile(rf"pod{_UID}(?:\.slice)?(?:[/:]|$)")
_SESSION = re.compile(r"session-(.+)\.scope", re.DOTALL)
_SERVICE = re.compile(r"/([^/]+\.service)(?=/)")
# The first of a path is systemd's: what runs in a unit may make cgroups below its own and call them what it likes.
_UNIT = re.compile(r"/([^/]+\.(?:service|scope|socket|mount|swap))(?=/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What a path shows of a cgroup's owner."""

    kind: str  # container, pod, session, unit, or cgroup: no known owner
    name: str  # the container's id, the pod's uid, the unit's name; the path itself where no owner is known
    runtime: str = ""  # docker, containerd, cri-o, podman, nomad, lxc; empty where the path does not show it
    pod: str = ""  # the uid of the pod it belongs to, with dashes
    unit: str = ""  # the service that it is in

    @property
    def words(self) -> str:
        """In plain words; empty where nothing more is known than the path."""
        if self.kind == "cgroup":
            return ""
        if self.kind == "session":
            return f"login session {self.name}"
        # A family has no name, only a number of members.
        who = f"{self.kind}s" if self.name.startswith("<") else f"{self.kind} {self.name[: _long(self.name)]}"
        if self.kind == "container":
            who += f" of pod {self.pod}" if self.pod and not self.pod.startswith("<") else ""
            who += f" in unit {self.unit}" if self.unit else ""
        return who + (f" ({self.runtime})" if self.runtime else "")


def by_path(path: str) -> Owner:
    """The owner that a path, or a family of paths, shows."""
    pod = _POD.search(path)
    uid = pod[1].replace("_", "-") if pod else ""
    for runtime, pattern in _CONTAINERS:
        if found := pattern.search(path):
            service = _SERVICE.search(path[: found.end()])
            return Owner(kind="container", name=found[1], runtime=runtime, pod=uid, unit=service[1] if service else "")
    if uid:
        return Owner(kind="pod", name=uid, pod=uid)
    if unit := _UNIT.search(path):
        session = _SESSION.fullmatch(unit[1])
        return Owner(kind="session", name=session[1]) if session else Owner(kind="unit", name=unit[1])
    return Owner(kind="cgroup", name=path)


def unit_of_cgroup(path: str) -> str:
    """The unit, or the slice, whose own cgroup this is: systemd sets its limits. "" for any other cgroup.

    The limits of a cgroup below a unit's were set by what runs in that unit.
    """
    its = by_path(path)
    if its.kind == "unit":
        return its.name if path.endswith(f"/{its.name}") else ""
    slices = path.strip("/").split("/")
    return slices[-1] if its.kind == "cgroup" and all(it.endswith(".slice") for it in slices) else ""


def owner(timeline: Timeline, subject: str) -> str:
    """In words, who owns `cgroup:/path` or `family:/path/<id>`: container web of pod default/web-1, image …

    Empty where nothing is known. In a family whose containers come and go, those that are gone are named.
    """
    readings = owners(timeline, subject)
    if not readings:
        return by_path(_path(subject)).words
    words = [with_owner(words) for words, _ in Counter(reading.text for reading in readings).most_common()]
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


def whose(timeline: Timeline, process: str, cgroup: str) -> str:
    """A process and its owner for a sentence: sh[7] of container web; the owner or the path where many did it."""
    name = harmless(process.removeprefix("process:"))
    owned = harmless(owner(timeline, cgroup) or cgroup.removeprefix("cgroup:")) if cgroup else ""
    return " of ".join(filter(None, (name, owned)))


def owners(timeline: Timeline, subject: str) -> list[Reading]:
    """The readings that name the owner: the evidence for `owner`."""
    known, path = timeline.once(_Known), _path(subject)
    told = by_path(path)
    exact = known.by_key.get(path) or known.by_key.get(told.name) or known.by_key.get(told.pod or path)
    if exact is not None:
        return [exact]
    members = known.by_family.get(path, [])
    gone = [reading for reading in members if not reading.value]
    return gone or members


def one_for_pod(found: Iterable[Finding]) -> list[Finding]:
    """The findings of cgroups without those of a pod's only busy container: what is said of the pod is said of it."""
    every = list(found)
    paths = {it.subject: _path(it.subject) for it in every}
    alone = []
    for pod in [it for it in paths if by_path(paths[it]).kind == "pod"]:
        inside = [it for it in paths if paths[it].startswith(f"{paths[pod].rstrip('/')}/")]
        alone += inside if len(inside) == 1 else []
    return [it for it in every if it.subject not in alone or not _told_by_pod(it, every, paths)]


def _told_by_pod(one: Finding, every: list[Finding], paths: dict[str, str]) -> bool:
    """Whether its pod has a finding at the same time."""
    pods = (it for it in every if it.subject != one.subject and by_path(paths[it.subject]).kind == "pod")
    return any(
        paths[one.subject].startswith(f"{paths[it.subject]}/")
        and it.span.start <= one.span.end
        and one.span.start <= it.span.end
        for it in pods
    )


class _Known:
    """All that probes have read of owners, by path, by id and by family."""

    def __init__(self, timeline: Timeline) -> None:
        self.by_key: dict[str, Reading] = {}
        self.by_family: dict[str, list[Reading]] = {}
        for reading in timeline.latest("pod_info"):
            self.by_key[reading.subject.removeprefix("pod:")] = reading
        for reading in timeline.latest("container_info"):
            path = _path(reading.subject)
            self.by_key[path] = self.by_key[by_path(path).name] = reading
            self.by_family.setdefault(family(path), []).append(reading)


def _path(subject: str) -> str:
    kind, _, name = subject.partition(":")
    return name if kind in ("cgroup", "family") else f"/{name}" if kind == "container" else subject


def _long(name: str) -> int:
    """How much of a name is shown: twelve digits of an id, as docker does."""
    return 12 if re.fullmatch("[0-9a-f]{64}", name) else len(name)
