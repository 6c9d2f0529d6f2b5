"""Generated names, grouped: /docker/5f0c…, /docker/81aa… and 68,000 more are one family, /docker/<id>.

First what is known: UUIDs, ULIDs, long hashes, the suffixes of Kubernetes, numbers. Then what is learnt from the names
at hand: see learnt_names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from zombiescope.cgroups.learnt_names import LearntNames

_UUID = re.compile(r"[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}")
# Twelve hex digits are what docker shows of an id; a shorter word of a to f is no hash, and digits alone are a number
# unless they are as many as a hash has.
_HASH = re.compile(
    r"(?<![0-9A-Za-z])r?(?:(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{12,}|[0-9a-f]{32,})(?![0-9A-Za-z])"
)
# Crockford's alphabet, 26 characters of which the first is at most 7.
_ULID = re.compile(r"(?<![0-9A-Za-z])(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-7][0-9a-hjkmnp-tv-z]{25})(?![0-9A-Za-z])")
# A pod of a Deployment: the hash of its template (digits only before Kubernetes 1.12), then five of the letters and
# digits that make no words (k8s.io/apimachinery/pkg/util/rand).
_SUFFIX = re.compile(
    r"-(?:[bcdfghjklmnpqrstvwxz2456789]{6,10}|[0-9]{8,10})-[bcdfghjklmnpqrstvwxz2456789]{5}(?![0-9A-Za-z])"
)
_NUMBER = re.compile(r"[0-9]+")
_CONTAINER = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_POD = re.compile(r"pod([0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-f]{32})")
_UNIT = re.compile(r"[^/]+\.(?:service|scope|socket|mount|swap)(?=/|$)")


@lru_cache(maxsize=65_536)
def family(path: str) -> str:
    """A path with its generated parts in brackets: /system.slice/run-r<id>.scope, /kubepods/pod<uid>/<id>."""
    return _NUMBER.sub("<n>", _known(path))


def _known(path: str) -> str:
    path = _ULID.sub("<id>", _UUID.sub("<uid>", path))
    path = _HASH.sub(lambda found: ("r" if found[0].startswith("r") else "") + "<id>", path)
    return _SUFFIX.sub("-<id>", path)


@dataclass(slots=True)
class Families:
    """Families learnt from paths as they come: a path met early may get another family later."""

    names: LearntNames = field(default_factory=LearntNames)

    def of(self, path: str) -> str:
        return self.of_known(_known(path))

    def of_known(self, path: str) -> str:
        found = ""
        for name in path.strip("/").split("/"):
            found += "/" + (self.names.generalised(found, name) or _NUMBER.sub("<n>", name))
        return found


def families(paths: Iterable[str]) -> dict[str, str]:
    """The family of each path, learnt from all of them together."""
    known, learnt = {path: _known(path) for path in paths}, Families()
    found: dict[str, str] = dict.fromkeys(known.values(), "")
    for _ in range(2):  # what is learnt from the last of them holds for the first
        found = {path: learnt.of_known(path) for path in found}
    return {path: found[form] for path, form in known.items()}


def belongs_to(path: str) -> str:
    """Who owned a cgroup: a container, a pod, a systemd unit, or the top of the tree it is in."""
    if container := _CONTAINER.search(path):
        return f"container:{container[1]}"
    if pod := _POD.search(path):
        return f"pod:{pod[1].replace('_', '-')}"
    if unit := _UNIT.search(path):  # the first: what runs in a unit names the cgroups below as it likes
        return f"unit:{unit[0]}"
    return f"cgroup:/{path.strip('/').partition('/')[0]}"
