"""Pods and their containers' restarts, from the names of kubelet's log files in /var/log/pods, without an API.

A pod's folder is NAMESPACE_NAME_UID, in it one for each container, in it N.log, where N is how often it was restarted:
kubelet itself reads the count back from there when it has lost its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.text import count

SOURCE = "/var/log/pods"
MOST = 1_000  # pods: a node has 110 by default, 250 where it was raised; so many files of one container, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    namespace: str
    name: str
    uid: str
    restarts: dict[str, int] = field(default_factory=dict)  # by container


def pods(host: Host, left_out: list[str]) -> Iterator[Pod]:
    """Every pod with a log; `left_out` gets each folder that has more names than are read."""
    for folder in _listing(host, SOURCE, left_out):
        parts = folder.split("_")
        if len(parts) != 3 or not all(parts):  # names of namespaces and pods hold no underscore
            continue
        restarts = {}
        for container in _names(host, f"{SOURCE}/{folder}", left_out):
            files = _names(host, f"{SOURCE}/{folder}/{container}", left_out)
            numbers = [number for file in files for number in _number(file)]
            if numbers:
                restarts[container] = max(numbers)
        yield Pod(namespace=parts[0], name=parts[1], uid=parts[2], restarts=restarts)


# 3.log, and rotated ones: 3.log.20250102-150405.gz
def _number(file: str) -> Iterator[int]:
    first, dot, rest = file.partition(".")
    if dot and rest.startswith("log") and first.isdecimal():
        try:
            yield count(first)
        except ValueError:
            return


def _names(host: Host, path: str, left_out: list[str]) -> list[str]:
    try:
        return _listing(host, path, left_out)
    except Unreadable:
        return []  # it is gone, or not a folder


def _listing(host: Host, path: str, left_out: list[str]) -> list[str]:
    names, more = host.first_names(path, MOST)
    if more:
        left_out.append(path)
    return names
