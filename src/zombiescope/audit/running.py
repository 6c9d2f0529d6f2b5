"""Processes by their kernel name (comm): container supervisors, Ray nodes. Anybody may choose a name."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator
from functools import partial

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.aside import PATIENCE, Aside

MOST = 20_000  # processes read, 10 µs each


def running(host: Host, names: Container[str]) -> Iterator[tuple[int, str]]:
    """The pid and name of each process that is called one of `names`; the kernel keeps 15 bytes of a name.

    Raises Unreadable at the end if there are more processes than are read: one that was not found may be among them.
    """
    pids = host.pids()
    for pid in pids[:MOST]:
        try:
            name = host.read(f"/proc/{pid}/comm", most=64).removesuffix("\n")
        except Unreadable:
            continue  # it has exited
        if name in names:
            yield int(pid), name
    if len(pids) > MOST:
        raise Unreadable("/proc", f"{len(pids):,} processes, of which {MOST:,} were read")


def sees_all(host: Host) -> bool:
    """Whether all processes of the machine are visible, not only a container's: then a missing one does not exist."""
    try:
        return host.read("/proc/2/comm", most=64) == "kthreadd\n"
    except Unreadable:
        return False


def is_roots(host: Host, pid: int) -> bool:
    """Whether root owns a process: the name and command line of another user's process prove nothing."""
    try:
        return "\nUid:\t0\t" in host.read(f"/proc/{pid}/status", most=1 << 16)
    except Unreadable:
        return False


def is_the_hosts(host: Host, pid: int, program: str) -> bool:
    """Whether a process runs this program (or one that is called so and more), as the host's root installed it.

    Its name says nothing, and root in a container is not root on the host. So it must be in the node's own mount and
    pid namespaces, where the path of its executable means what it means to us, and only root may write to that.
    """
    first = 2 if sees_all(host) else 1  # kthreadd is in the initial ones, which no container can have
    try:
        for kind in ("mnt", "pid"):
            if host.link(f"/proc/{pid}/ns/{kind}") != host.link(f"/proc/{first}/ns/{kind}"):
                return False
        name = os.path.basename(host.link(f"/proc/{pid}/exe").removesuffix(" (deleted)"))  # after an upgrade
        file = host.status(f"/proc/{pid}/exe", follow=True)
    except Unreadable:
        return False
    writable = stat.S_IWGRP | stat.S_IWOTH
    owned = file is not None and stat.S_ISREG(file.st_mode) and file.st_uid == 0 and not file.st_mode & writable
    return owned and (name == program or name.startswith(f"{program}-")) and is_roots(host, pid)


def words_of(host: Host, pid: int) -> list[str]:
    """The command line of a process; empty if it has exited, or does not let it be read (see `silent`)."""
    task = None if (pid,) in _aside.waiting else _aside.run(partial(_words, host, pid), pid)
    try:
        return task.result() if task is not None else []
    except Unreadable:
        return []


def silent() -> Iterator[Unreadable]:
    """The command lines that were asked for and do not come."""
    for (pid,) in _aside.waiting:
        yield Unreadable(f"/proc/{pid}/cmdline", f"no answer in {PATIENCE:g} s: its memory map is locked")
    if _aside.why_full:
        yield Unreadable("/proc/PID/cmdline", _aside.why_full)


def _words(host: Host, pid: int) -> list[str]:
    return host.read(f"/proc/{pid}/cmdline", most=1 << 18).removesuffix("\0").split("\0")


# The command line is in the process's own memory: who reads it waits for the lock of its memory map.
_aside = Aside()


def cgroup_of(host: Host, pid: int) -> str:
    """The cgroup of a process in the v1 memory hierarchy, else in v2; empty if unknown."""
    try:
        rows = [line.split(":", 2) for line in host.read(f"/proc/{pid}/cgroup", most=1 << 16).split("\n")]
    except Unreadable:
        return ""
    places = {row[1]: row[2] for row in rows if len(row) == 3}
    return places.get("memory") or places.get("", "")
