"""Control: a worker exits with 0 after each job, and a real systemd starts it again, as its unit says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT, asked_by_diagnosis, booted
from zombiescope.lab._units import restarted

TRUTH = Truth(silent=("zombie_cgroups", "cgroup_churn", "cpu_throttling", "direct_reclaim", "driver_reset"))
NEEDS = TO_BOOT
SECONDS = 10.0
PAUSE = 0.2  # seconds between two jobs
JOB = "/bin/sh -c 'sleep 0.1; exit 0'"


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    units = {"zslab-worker.service": restarted(JOB, PAUSE / max(scale, 0.01))}
    with booted(units, label="worker") as systemd, asked_by_diagnosis(systemd):
        yield Fault(subject="node", says="zslab-worker.service ends well after each job, and is started again")
