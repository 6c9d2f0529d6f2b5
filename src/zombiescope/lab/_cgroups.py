"""Cgroups of the lab, removed when the scenario ends, even if its last process was killed a moment ago."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Truth, name_for

PERIOD, QUOTA = 100_000, 10_000  # microseconds: run 10 ms of each 100 ms, then throttled
_PATIENCE = 60.0  # seconds: the machine may be starved already


def throttling_of(label: str) -> Truth:
    """What a diagnosis must say of a busy process in the cgroup that `with_quota(label)` makes."""
    return Truth(chain=("cpu_throttling", "starved_thread"), subject=rf"cgroup:/{PREFIX}{label}-\d+", silent=CPU_CAUSES)


@contextmanager
def with_quota(label: str, quota: int = QUOTA) -> Iterator[str]:
    """Make a cgroup with a quota, a tenth of a core by default; returns its folder, which is named like its path."""
    folder = f"{_cpu_folder()}/{name_for(label)}"
    os.mkdir(folder)
    try:
        if os.path.exists(f"{folder}/cpu.max"):
            _write(f"{folder}/cpu.max", f"{quota} {PERIOD}")
        else:
            _write(f"{folder}/cpu.cfs_period_us", str(PERIOD))
            _write(f"{folder}/cpu.cfs_quota_us", str(quota))
        yield folder
    finally:
        remove(folder)


@contextmanager
def weighed(label: str, times: float) -> Iterator[tuple[tuple[str, ...], str]]:
    """Make a cgroup with so many times the usual CPU weight; returns its folders, to be joined all, and its path.

    There are two where CPU time is counted in a hierarchy of its own.
    """
    top, name = _cpu_folder(), name_for(label)
    counted = [it.path for it in cgroup_mounts(Host()) if "cpuacct" in it.controllers]
    folders = tuple(dict.fromkeys(f"{it}/{name}" for it in (top, *counted)))
    with ExitStack() as undo:
        for folder in folders:
            os.mkdir(folder)
            undo.callback(remove, folder)
        if os.path.exists(f"{folders[0]}/cpu.weight"):
            _write(f"{folders[0]}/cpu.weight", str(min(max(round(100 * times), 1), 10_000)))
        else:
            _write(f"{folders[0]}/cpu.shares", str(min(max(round(1024 * times), 2), 262_144)))
        yield folders, f"/{name}"


def join_all(folders: tuple[str, ...], pid: int) -> None:
    for folder in folders:
        join(folder, pid)


def join(folder: str, pid: int) -> None:
    _write(f"{folder}/cgroup.procs", str(pid))


def remove(folder: str) -> None:
    """Remove a cgroup and its direct children; retry while a process in it is still exiting."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            for child in os.scandir(folder):
                if child.is_dir(follow_symlinks=False):
                    os.rmdir(child.path)
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _cpu_folder() -> str:
    """Where a cgroup with a quota can be made: the v1 cpu hierarchy, else v2 if the controller is enabled."""
    mounts = cgroup_mounts(Host())
    for mount in sorted(mounts, key=lambda it: "cpu" not in it.controllers):
        if "cpu" in mount.controllers:
            return mount.path
        if mount.version == 2:
            with open(f"{mount.path}/cgroup.subtree_control") as enabled:
                if "cpu" in enabled.read().split():
                    return mount.path
    raise UserError("cannot make a cpu cgroup here: the controller is neither mounted as v1 nor enabled in v2")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
