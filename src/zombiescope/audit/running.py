"""Processes by the name the kernel gives them: who supervises containers, who runs a Ray node."""

from __future__ import annotations

from collections.abc import Container, Iterator

from zombiescope.core import Host, Unreadable

MOST = 20_000  # processes looked at, 10 µs each


def running(host: Host, names: Container[str]) -> Iterator[tuple[int, str]]:
    """The pid and name of each process that is called one of `names`; the kernel keeps 15 bytes of a name."""
    for pid in [name for name in host.listing("/proc") if name.isascii() and name.isdecimal()][:MOST]:
        try:
            name = host.read(f"/proc/{pid}/comm", most=64).removesuffix("\n")
        except Unreadable:
            continue  # it has ended
        if name in names:
            yield int(pid), name


def sees_all(host: Host) -> bool:
    """Whether the machine's own processes are seen, and not only a container's: then what is not there is not there."""
    try:
        return host.read("/proc/2/comm", most=64) == "kthreadd\n"
    except Unreadable:
        return False


def is_roots(host: Host, pid: int) -> bool:
    """Whether a process is root's: what another's process is called, and says on its command line, proves nothing."""
    try:
        return "\nUid:\t0\t" in host.read(f"/proc/{pid}/status", most=1 << 16)
    except Unreadable:
        return False


def words_of(host: Host, pid: int) -> list[str]:
    """The command line of a process; empty if it has ended."""
    try:
        return host.read(f"/proc/{pid}/cmdline", most=1 << 18).removesuffix("\0").split("\0")
    except Unreadable:
        return []


def cgroup_of(host: Host, pid: int) -> str:
    """Where a process is by the memory hierarchy of v1, else by v2; empty if that cannot be told."""
    try:
        rows = [line.split(":", 2) for line in host.read(f"/proc/{pid}/cgroup", most=1 << 16).split("\n")]
    except Unreadable:
        return ""
    places = {row[1]: row[2] for row in rows if len(row) == 3}
    return places.get("memory") or places.get("", "")
