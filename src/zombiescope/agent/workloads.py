"""What runs in a cgroup: its class; its namespace, pod and container where they are known, else the systemd unit."""

from __future__ import annotations

import re
from functools import lru_cache

from zombiescope.cgroups.owners import by_path, owners
from zombiescope.core.timeline import Timeline
from zombiescope.profile.push.series import Workload

LONGEST = 128  # characters of a label: a pod's name has up to 63 in each part; servers allow 1,024 or more
# As audit.containers and probes.containers write them. Kubernetes and the runtimes allow no other letters in names.
_CONTAINER = re.compile(r"container ([\w.-]+)(?: of pod ([\w.-]+)/([\w.-]+))?(?:,| \().*", re.DOTALL)
_POD = re.compile(r"(?:sandbox of )?pod ([\w.-]+)/([\w.-]+)(?:,| \(|$).*", re.DOTALL)
_TEMPLATE = re.compile(r"@.*(?=\.[a-z]+$)")

_CLASS = re.compile(r"/kubepods(?:\.slice)?(?:/(?:kubepods-)?(besteffort|burstable))?(?=[/.]|$)")
_TOPS = {"system.slice": "system", "init.scope": "system", "user.slice": "user"}


def class_of(path: str) -> str:
    """guaranteed, burstable, besteffort (pods, by their quality of service), container, system, user or other."""
    if pod := _CLASS.match(path):
        return pod[1] or "guaranteed"
    if by_path(path).kind in ("container", "pod"):
        return "container"
    return _TOPS.get(path.strip("/").partition("/")[0], "other")


def workload(timeline: Timeline) -> Workload:
    """Asks what the recording knows of a path; instances of a unit's template are one."""

    @lru_cache(maxsize=4096)
    def labels(path: str) -> dict[str, str]:
        found: dict[str, str] = {}
        owner = by_path(path)
        for reading in owners(timeline, f"cgroup:{path}")[:1] if owner.kind in ("container", "pod") else ():
            if told := _CONTAINER.fullmatch(reading.text):
                found = {"container": told[1], "namespace": told[2] or "", "pod": told[3] or ""}
            elif told := _POD.fullmatch(reading.text):
                found = {"namespace": told[1], "pod": told[2]}
        if not found and owner.kind in ("container", "pod"):
            found = {owner.kind: owner.name[:12] if owner.kind == "container" else owner.name}
        if not found and owner.kind == "unit":
            found = {"unit": _TEMPLATE.sub("@", owner.name)}
        return {name: text[:LONGEST] for name, text in found.items() if text}

    return labels
