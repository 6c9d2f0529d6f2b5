"""A cgroup with a quota of a tenth of a core runs one busy process, while the rest of the machine idles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._cgroups import remove
from zombiescope.lab._scenario import PREFIX, Fault, Truth, name_for
from zombiescope.lab._starvers import starver

TRUTH = Truth(
    root="cpu_throttling",
    subject=rf"cgroup:/{PREFIX}throttled-\d+",
    chain=("cpu_throttling", "starved_thread"),
    silent=("realtime_hog", "fork_storm", "defunct_processes", "blocked_tasks", "saturated_core"),
)
NEEDS = ("root",)
SECONDS = 8.0
PERIOD, QUOTA = 100_000, 10_000  # microseconds: so much of each period, then it stands still


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one process that is stopped is the fault
    folder = _folder()
    os.mkdir(folder)
    try:
        if os.path.exists(f"{folder}/cpu.max"):
            _write(f"{folder}/cpu.max", f"{QUOTA} {PERIOD}")
        else:
            _write(f"{folder}/cpu.cfs_period_us", str(PERIOD))
            _write(f"{folder}/cpu.cfs_quota_us", str(QUOTA))
        with starver("spin") as pid:
            _write(f"{folder}/cgroup.procs", str(pid))
            name = os.path.basename(folder)
            yield Fault(subject=f"cgroup:/{name}", says=f"process {pid} has a quota of {QUOTA / PERIOD:.0%} of a core")
    finally:
        remove(folder)


def _folder() -> str:
    """A new cgroup's path where the cpu controller is: its v1 hierarchy, else v2 with the controller switched on."""
    mounts = cgroup_mounts(Host())
    for mount in sorted(mounts, key=lambda it: "cpu" not in it.controllers):
        if "cpu" in mount.controllers:
            return f"{mount.path}/{name_for('throttled')}"
        if mount.version == 2:
            with open(f"{mount.path}/cgroup.subtree_control") as enabled:
                if "cpu" in enabled.read().split():
                    return f"{mount.path}/{name_for('throttled')}"
    raise UserError("no cpu cgroup can be made here: the controller is neither on v1 nor switched on in v2")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
