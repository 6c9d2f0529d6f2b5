"""A limit that a file of a cgroup may hold, for the probes that watch the cgroups with one."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.core import Host, Unreadable


def limit_in(host: Host, source: str, parse: Callable[[str, str], int | None]) -> int | None:
    """None where there is no limit, where the cgroup is gone, or where its controller is not enabled."""
    try:
        return parse(host.read(source), source)
    except Unreadable:
        return None
