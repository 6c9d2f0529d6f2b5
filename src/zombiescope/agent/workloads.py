"""The labels of what runs in a cgroup: namespace, pod and container where they are known, else the systemd unit."""

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
