"""A container with a quota of 0.1 core and work for a whole core: throttled in most periods, while cores are idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._containers import podman
from zombiescope.lab._scenario import Fault, Truth, name_for

NEEDS = ("root", "podman")
SECONDS = 12  # the quota is found by a walk at the first sample, and throttling has to last to be found
TRUTH = Truth(
    chain=("cpu_throttling",),
    subject=r"cgroup:/zslab-podman-\d+/libpod-[0-9a-f]{64}",
    silent=("zombie_cgroups", "saturated_core", "driver_reset", "oom_kill", "job_failure"),
)


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    """`scale` divides the quota: at 2 it is a twentieth of a core."""
    with podman() as one:
        name = name_for("throttled")
        cgroup = one.run(name, "while :; do :; done", "--cpus", f"{max(0.1 / scale, 0.01):.2f}")
        yield Fault(
            subject=f"cgroup:{cgroup}", says=f"container {name} has work for one core and a quota of a tenth of it"
        )
