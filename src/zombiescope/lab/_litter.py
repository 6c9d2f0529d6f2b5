"""Remove what a killed lab left behind: everything named by a lab whose process has ended."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from zombiescope.core import Host
from zombiescope.kernel.lru_drain import drain
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._file_systems import thawed
from zombiescope.lab._loop_disk import LIMIT
from zombiescope.lab._scenario import PREFIX
from zombiescope.places.own_python import FOLDER, environment

FOLDERS = ("/dev/shm", "/run", "/tmp", "/var/tmp")
_PATIENCE = 20.0  # seconds for killed processes to exit, among them a whole systemd
_NAME = re.compile(rf"{PREFIX}[\w.-]*?-(\d+)(?:\D.*)?", re.DOTALL)


def clean() -> list[str]:
    """Remove it all; returns what was removed. Processes first, since they hold the rest."""
    removed = [*_thawed(), *_processes(), *_cgroups(), *_mounts(), *_limits(), *_namespaces(), *_files()]
    if removed:
        drain()  # dying cgroups pinned by the files are released only when no core's batch holds their pages
    return removed


def others() -> list[str]:
    """Cgroups of other labs running on this machine: a diagnosis reports their faults too."""
    names = {name for mount in cgroup_mounts(Host()) for name in _names(mount.path)}
    makers = {name: _NAME.fullmatch(name) for name in sorted(names)}
    return [name for name, it in makers.items() if it and int(it[1]) != os.getpid() and not _ours(name)]


def _ours(name: str) -> bool:
    """A name given by a lab process that has ended. A running lab is left alone."""
    found = _NAME.fullmatch(name)
    return found is not None and not os.path.exists(f"/proc/{found[1]}")


def _processes() -> Iterator[str]:
    """Lab processes whose parent is gone: normally they end with the lab, unless it was killed."""
    for pid in (name for name in _names("/proc") if name.isdecimal()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="surrogateescape") as stat:
                head, _, rest = stat.read().rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if head.partition("(")[2].startswith(PREFIX) and parent == "1" and state not in "ZX":  # Z and X have ended
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
                yield f"process {pid}"


def _thawed() -> Iterator[str]:
    """File systems that a killed lab left frozen: who writes there cannot even be killed. Only disks can be frozen."""
    for point, kind in _own_mounts():
        if kind == "ext4" and thawed(point):
            yield f"freeze of {point}"


def _limits() -> Iterator[str]:
    """I/O limits of the top cgroup on loop devices that nothing uses: the next user of the device would have them."""
    path = next((f"{it.path}/{LIMIT}" for it in cgroup_mounts(Host()) if "blkio" in it.controllers), "")
    with suppress(OSError), open(path) as file:
        for number in (line.split()[0] for line in file if line.startswith("7:")):
            if not os.path.exists(f"/sys/dev/block/{number}/loop/backing_file"):
                with open(path, "w") as limits:
                    limits.write(f"{number} 0")
                yield f"I/O limit on loop device {number}"


def _own_mounts() -> list[tuple[str, str]]:
    """Where the lab mounted something, and its kind, in the order of their paths."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, after = line.partition(" - ")
            point = before.split(" ")[4]
            if any(_ours(part) for part in point.split("/")):
                found.append((point, after.split(" ")[0]))
    return sorted(found)


def _mounts() -> Iterator[str]:
    """The topmost mount of each tree: unmounting it takes along all below it, even thousands."""
    gone = ""
    for point, _ in _own_mounts():
        if gone and point.startswith(f"{gone}/"):
            continue
        if _done("umount", "--lazy", point):
            gone = point
            yield f"mount {point}"


def _namespaces() -> Iterator[str]:
    for name in _names("/run/netns"):
        if _ours(name) and _done("ip", "netns", "delete", name):
            yield f"network namespace {name}"


def _done(*argv: str) -> bool:
    return subprocess.run(argv, cwd=FOLDER, env=environment(), capture_output=True, check=False).returncode == 0


def _cgroups() -> Iterator[str]:
    tops = [os.path.join(mount.path, name) for mount in cgroup_mounts(Host()) for name in _names(mount.path)]
    deadline = time.monotonic() + _PATIENCE
    for top in (it for it in tops if _ours(os.path.basename(it))):
        while os.path.isdir(top) and time.monotonic() < deadline:
            # Any process still inside was started by the lab: nothing else joins a cgroup of that name.
            for folder, _, _ in os.walk(top, topdown=False):
                for pid in _inside(folder):
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
                with suppress(OSError):
                    os.rmdir(folder)
            time.sleep(0.05)
        if not os.path.isdir(top):
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
