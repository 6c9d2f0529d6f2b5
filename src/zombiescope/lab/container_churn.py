"""A healthy service restarts its container forever, as ecs-init does: systemd counts no restart, each run leaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._units import SUPERVISOR, supervise
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="cgroup_churn",
    subject=r"family:/zslab-.*/zslab-supervisor\.service/<id>",
    chain=("cgroup_churn", "zombie_cgroups"),
    silent=("crash_looping_unit", "cpu_throttling", "direct_reclaim", "driver_reset"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 10.0
ALREADY = 1_000  # dying cgroups when it begins
PAUSE = 0.05  # seconds between two containers


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    files = supervise(PAUSE / max(scale, 0.01))
    with (
        leaked(ALREADY, label="already"),
        booted({"zslab-supervisor.service": SUPERVISOR}, files=files, label="churn") as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-supervisor.service/<id>",
            says="zslab-supervisor.service stays active and restarts a container that exits at once, forever",
        )
