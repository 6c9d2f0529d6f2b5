"""What a killed lab leaves behind, and its removal: everything whose name is the lab's and whose maker is gone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from zombiescope.core import Host
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import PREFIX

FOLDERS = ("/dev/shm", "/tmp")
_NAME = re.compile(rf"{PREFIX}[\w.-]*?-(\d+)(?:\D.*)?", re.DOTALL)


def clean() -> list[str]:
    """Remove it; returns what was removed."""
    return [*_processes(), *_mounts(), *_namespaces(), *_cgroups(), *_files()]


def _ours(name: str) -> bool:
    """A name of the lab's, made by a process that has ended. A lab at work is left alone."""
    found = _NAME.fullmatch(name)
    return found is not None and not os.path.exists(f"/proc/{found[1]}")


def _processes() -> Iterator[str]:
    """Those that are called so and whose parent is gone: the lab's own end with it, unless it was killed."""
    for pid in (name for name in _names("/proc") if name.isdecimal()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="surrogateescape") as stat:
                head, _, rest = stat.read().rpartition(")")
        except OSError:
            continue
        if head.partition("(")[2].startswith(PREFIX) and rest.split()[1] == "1":
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
                yield f"process {pid}"


def _mounts() -> Iterator[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        points = [line.split(" ")[4] for line in table]
    for point in reversed(points):
        if any(_ours(part) for part in point.split("/")):
            done = subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
            if done.returncode == 0:
                yield f"mount {point}"


def _namespaces() -> Iterator[str]:
    for name in _names("/run/netns"):
        if _ours(name):
            done = subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
            if done.returncode == 0:
                yield f"network namespace {name}"


def _cgroups() -> Iterator[str]:
    for mount in cgroup_mounts(Host()):
        for name in _names(mount.path):
            if not _ours(name):
                continue
            top = os.path.join(mount.path, name)
            # Whoever is still inside was started by the lab: nobody else joins a cgroup of that name.
            for folder, _, _ in os.walk(top, topdown=False):
                for pid in _inside(folder):
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
                with suppress(OSError):
                    os.rmdir(folder)
            if not os.path.exists(top):
                yield f"cgroup {top}"


def _inside(folder: str) -> list[int]:
    try:
        with open(os.path.join(folder, "cgroup.procs")) as pids:
            return [int(pid) for pid in pids.read().split()]
    except OSError:
        return []


def _files() -> Iterator[str]:
    for folder in FOLDERS:
        for name in _names(folder):
            if _ours(name):
                path = os.path.join(folder, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with suppress(OSError):
                        os.unlink(path)
                yield path


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
