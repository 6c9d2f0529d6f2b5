"""Cores that an administrator set apart: isolcpus=, nohz_full=, and cgroups that have cores to themselves.

Exclusive cpusets are looked for at every level. The cores that the kubelet's static CPU manager gives to one container
are exclusive by its own doing alone: no file of the kernel says so, the kubelet's state file does.

Overhead: two reads of a few bytes, the kubelet's state where there is one, and one or two reads for each cgroup with a
    cpuset, about 25 µs each; at most 10,000 of them and 0.3 s. Where there are more it is blind.
Kernel: /sys/devices/system/cpu/isolated (v4.2), nohz_full (v4.2); cpuset.cpus.partition of cgroup v2 (v5.0), with
    cores of nested partitions in cpuset.cpus.effective of the innermost; cpuset.cpu_exclusive of v1, which a cgroup may
    have only if its parent has it. The root's own files do not count, nor does a cgroup that has every core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.core.witness import Witness
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts
from zombiescope.kernel.text import cores

EVERY = 60.0
WITNESS = Witness.KERNEL
GIVES = ("cpu_reserved",)
CORE_LISTS = {"isolated": "/sys/devices/system/cpu/isolated", "nohz_full": "/sys/devices/system/cpu/nohz_full"}
ONLINE = "/sys/devices/system/cpu/online"
MOST = 10_000  # cgroups: 500 pods with ten containers each and the services of a node
SECONDS = 0.3  # for all of them: 0.5 % of a core at this pace
_FLAGS = ("cpuset.cpu_exclusive", "cpuset.cpus")
_PARTITIONS = ("cpuset.cpus.partition", "cpuset.cpus.effective")
_EXCLUSIVE = (["1"], ["root"], ["isolated"])  # not "root invalid (…)"
_ABSENT = ("no such file or directory", "not a directory", "no such device")
# policyName, and entries by pod and container, or by container before 1.18: cm/cpumanager/state/checkpoint.go.
KUBELET = ("/var/lib/kubelet/cpu_manager_state", "/var/snap/microk8s/common/var/lib/kubelet/cpu_manager_state")
MOST_STATE = 1 << 20  # bytes; an entry has some hundred


def read(host: Host) -> Iterator[Reading]:
    at, seen = host.now(), 0
    for words, path in CORE_LISTS.items():
        try:
            text = host.read(path).replace("(null)", "")
        except Unreadable:
            continue
        seen += 1
        if not text.endswith("\n"):  # no cores are an empty line, not an empty file
            raise Unparsable(path, 1, text)
        yield from _readings(cores(text, path), path, words, at)
    if not seen:
        raise Unreadable(CORE_LISTS["isolated"], "neither isolated nor nohz_full cores are listed")
    for mount in cgroup_mounts(host):
        if mount.version == 2 or "cpuset" in mount.controllers:
            yield from _exclusive(host, mount, at)
    yield from _pinned(host, at)


def _exclusive(host: Host, mount: CgroupMount, at: float) -> Iterator[Reading]:
    path = ONLINE if mount.version == 2 else f"{mount.path}/cpuset.cpus"
    every = set(cores(_text(host, path), path))
    flag, file = _FLAGS if mount.version == 1 else _PARTITIONS
    deadline = time.monotonic() + SECONDS
    has = {""}  # folders with a cpuset
    for folder in sorted(host.tree(mount.path, most=MOST), key=lambda it: it.count("/")):
        if folder.rpartition("/")[0] not in has:
            continue
        if time.monotonic() > deadline:
            raise Unreadable(mount.path, f"exclusive cpusets: not all cgroups read within {SECONDS:g} s")
        kind = _text(host, f"{mount.path}{folder}/{flag}").split()
        if kind:  # without the controller neither it nor anything below it has one
            has.add(folder)
        if kind in _EXCLUSIVE:
            path = f"{mount.path}{folder}/{file}"
            mine = cores(_text(host, path), path)
            if set(mine) != every:
                yield from _readings(mine, path, f"exclusive to {folder}", at)


def _pinned(host: Host, at: float) -> Iterator[Reading]:
    """Cores that the kubelet's static CPU manager gave to one container: all others are kept off them."""
    for path in KUBELET:
        text = _text(host, path, most=MOST_STATE)
        if not text:
            continue
        try:
            state = json.loads(text)
            entries = (state.get("entries") or {}) if state["policyName"] == "static" else {}
            for pod, given in entries.items():
                for name, listed in given.items() if isinstance(given, dict) else (("", given),):
                    words = f"exclusive to {f'container {name} of pod' if name else 'container'} {pod}"
                    yield from _readings(cores(listed, path), path, f"{words} (kubelet)", at)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Unreadable(path, "not a state of the kubelet's CPU manager") from error


def _text(host: Host, path: str, most: int = 4096) -> str:
    """Nothing where it does not exist: a cgroup without the controller, or removed since; a node without a kubelet."""
    try:
        return host.read(path, most=most)
    except Unreadable as error:
        if error.why in _ABSENT:
            return ""
        raise


def _readings(found: list[int], source: str, words: str, at: float) -> Iterator[Reading]:
    for cpu in found:
        yield Reading(what=GIVES[0], subject=f"cpu:{cpu}", value=1, at=at, source=source, text=words)
