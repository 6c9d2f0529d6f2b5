"""Generated names, grouped: /docker/5f0c…, /docker/81aa… and 68,000 more are one family, /docker/<id>.

First what is known: UUIDs, long hashes, numbers. Then what is learnt from the names at hand: many siblings that still
differ in one place each differ in a generated part.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import lru_cache

MANY = 20  # siblings that differ only in a generated part: fewer may well be names that people gave

_UUID = re.compile(r"[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}")
# Twelve hex digits are what docker shows of an id; a shorter word of a to f is no hash, and digits alone are a number
# unless they are as many as a hash has.
_HASH = re.compile(
    r"(?<![0-9A-Za-z])r?(?:(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{12,}|[0-9a-f]{32,})(?![0-9A-Za-z])"
)
_NUMBER = re.compile(r"[0-9]+")
_CONTAINER = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_POD = re.compile(r"pod([0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-f]{32})")
_UNIT = re.compile(r"[^/]+\.(?:service|scope|socket|mount|swap)(?=/|$)")


@lru_cache(maxsize=65_536)
def family(path: str) -> str:
    """A path with its generated parts in brackets: /system.slice/run-r<id>.scope, /kubepods/pod<uid>/<id>."""
    path = _UUID.sub("<uid>", path)
    path = _HASH.sub(lambda found: ("r" if found[0].startswith("r") else "") + "<id>", path)
    return _NUMBER.sub("<n>", path)


def families(paths: Iterable[str]) -> dict[str, str]:
    """The family of each path, learnt from all of them together."""
    known = {path: family(path) for path in paths}
    siblings: dict[str, set[str]] = {}
    for name in set(known.values()):
        parent, _, leaf = name.rpartition("/")
        siblings.setdefault(parent, set()).add(leaf)
    learnt: dict[str, str] = {}
    for parent, leaves in siblings.items():
        if len(leaves) > MANY:
            learnt |= {f"{parent}/{leaf}": f"{parent}/{pattern}" for leaf, pattern in _alike(leaves).items()}
    return {path: learnt.get(name, name) for path, name in known.items()}


def belongs_to(path: str) -> str:
    """Who owned a cgroup: a container, a pod, a systemd unit, or the top of the tree it is in."""
    if container := _CONTAINER.search(path):
        return f"container:{container[1]}"
    if pod := _POD.search(path):
        return f"pod:{pod[1].replace('_', '-')}"
    units = _UNIT.findall(path)
    if units:
        return f"unit:{units[-1]}"
    return f"cgroup:/{path.strip('/').partition('/')[0]}"


def _alike(leaves: set[str]) -> dict[str, str]:
    """Many leaves with the same beginning, up to a dash or dot, and the same ending become one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for leaf in leaves:
        head = re.match(r"[^-._@]*[-._@]?", leaf)
        tail = posixpath.splitext(leaf)[1]
        groups.setdefault((head[0] if head and head[0] != leaf else "", tail), []).append(leaf)
    return {leaf: f"{head}*{tail}" for (head, tail), group in groups.items() if len(group) > MANY for leaf in group}
