"""Cgroups of the lab: gone when the scenario is, though its last process has only just been killed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._scenario import name_for

PERIOD, QUOTA = 100_000, 10_000  # microseconds: so much of each period, then all within stand still
_PATIENCE = 60.0  # seconds on a machine that is starved already


@contextmanager
def with_quota(label: str) -> Iterator[str]:
    """A new cgroup that may use a tenth of a core; its folder, whose name is its path."""
    folder = f"{_cpu_folder()}/{name_for(label)}"
    os.mkdir(folder)
    try:
        if os.path.exists(f"{folder}/cpu.max"):
            _write(f"{folder}/cpu.max", f"{QUOTA} {PERIOD}")
        else:
            _write(f"{folder}/cpu.cfs_period_us", str(PERIOD))
            _write(f"{folder}/cpu.cfs_quota_us", str(QUOTA))
        yield folder
    finally:
        remove(folder)


def join(folder: str, pid: int) -> None:
    _write(f"{folder}/cgroup.procs", str(pid))


def remove(folder: str) -> None:
    """A cgroup, and those right below it; one with a dying process in it can be removed a moment later."""
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
    """Where a cgroup with a quota can be made: the v1 hierarchy of cpu, else v2 with the controller switched on."""
    mounts = cgroup_mounts(Host())
    for mount in sorted(mounts, key=lambda it: "cpu" not in it.controllers):
        if "cpu" in mount.controllers:
            return mount.path
        if mount.version == 2:
            with open(f"{mount.path}/cgroup.subtree_control") as enabled:
                if "cpu" in enabled.read().split():
                    return mount.path
    raise UserError("no cpu cgroup can be made here: the controller is neither on v1 nor switched on in v2")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
