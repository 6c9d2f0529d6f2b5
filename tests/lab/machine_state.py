"""What a lab could leave behind on a machine, as names that can be compared: before it, and after it.

Other work may go on meanwhile, so a name with the number of a process that lives is left out: somebody is at work. What
has nobody's number in it (a setting, a mount, an interface) counts, whoever changed it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from zombiescope.core import Host
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import PREFIX

# The kernel's own figures among the settings: they change by themselves.
_FIGURES = re.compile(r"/(random|pty|quota)/|/ns_last_pid|/(\w+-)?nr(_\w+)?$|-(nr|state)\b|conntrack_count")
_FOLDERS = ("/dev/shm", "/run", "/run/*", "/tmp", "/var/tmp", "/var/lib")
# Anybody may write to these meanwhile; the lab's own, and what podman and runc leave, would be called so.
_PUBLIC = re.compile(r"/(dev/shm|tmp|var/tmp)/(?!.*(zslab|zombiescope|podman|libpod|containers|runc))")
# Made for good by the first `ip netns`, podman, runc and mount on a machine: these are the commands' own.
_FOR_GOOD = {"mount /run/netns", "/run/netns", "/dev/shm/libpod_lock", "/var/lib/containers", "/run/runc", "/run/mount"}


def machine_state() -> set[str]:
    """All of it, one line each."""
    kinds = (_cgroups, _mounts, _files, _networks, _settings, _instances, _processes)
    return {line for kind in kinds for line in kind()} - _FOR_GOOD


def changes(before: set[str]) -> list[str]:
    """What came and is nobody's who is at work, and what went though nobody had made it for a while only."""
    now = machine_state()
    came = [f"+ {line}" for line in now - before if not any(os.path.exists(f"/proc/{pid}") for pid in _makers(line))]
    went = [f"- {line}" for line in before - now if not _makers(line)]
    return sorted(came + went)


def _makers(line: str) -> list[str]:
    return re.findall(rf"(?:{PREFIX}|zombiescope)[\w.-]*?-(\d+)", line)


def _cgroups() -> Iterator[str]:
    """All at the top, where the lab makes its own; further down those of its name, since others make theirs there."""
    for mount in cgroup_mounts(Host()):
        for folder, below, _ in os.walk(mount.path):
            yield from (
                f"cgroup {folder}/{name}" for name in below if folder == mount.path or PREFIX in f"{folder}/{name}"
            )


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        yield f"mount {line.split(' ')[4]}"


def _files() -> Iterator[str]:
    """Names in /run two deep: podman, runc and containerd keep a folder each there."""
    for folder in _FOLDERS:
        yield from (path for path in glob(f"{folder}/*") + glob(f"{folder}/.*") if not _PUBLIC.match(path))


def _networks() -> Iterator[str]:
    for path in glob("/sys/class/net/*"):
        yield f"interface {path.rpartition('/')[2]}"
        yield from _contents([*glob(f"{path}/threaded"), *glob(f"{path}/queues/*/rps_cpus")])


def _settings() -> Iterator[str]:
    sysctls = [f"{folder}/{name}" for folder, _, names in os.walk("/proc/sys") for name in names]
    yield from _contents([path for path in sysctls if not _FIGURES.search(path)])
    yield from _contents(glob("/proc/irq/*/smp_affinity"))
    for mount in cgroup_mounts(Host()):
        yield from _contents(glob(f"{mount.path}/cgroup.subtree_control"))


def _contents(paths: list[str]) -> Iterator[str]:
    for path in paths:
        try:
            yield f"{path} = {Path(path).read_bytes()!r}"
        except OSError:
            continue  # not for reading, or of an interface that has just gone


def _instances() -> Iterator[str]:
    """Ring buffers of tracefs, which may be mounted nowhere."""
    look = "mount -t tracefs none /mnt && ls /mnt/instances"
    done = subprocess.run(["unshare", "-m", "sh", "-c", look], capture_output=True, text=True, check=False)
    yield from (f"tracefs instance {name}" for name in done.stdout.split())


def _processes() -> Iterator[str]:
    """Those of the lab that nobody looks after any more, by their own name or by the cgroup that they are in."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            head, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
            groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if parent == "1" and state not in "ZX" and PREFIX in head + groups:
            yield f"process {head})"
