"""A healthy service restarts its container forever, as ecs-init does: systemd counts no restart, each run leaks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import churn_of, leaking
from zombiescope.lab._scenario import Fault
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import SUPERVISOR, supervise

TRUTH = churn_of(r"family:/zslab-.*/zslab-supervisor\.service/<id>")
NEEDS = TO_BOOT
SECONDS = 10.0
PAUSE = 0.05  # seconds between two containers


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    files = supervise(PAUSE / max(scale, 0.01))
    with leaking({"zslab-supervisor.service": SUPERVISOR}, files=files, label="churn") as systemd:
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-supervisor.service/<id>",
            says="zslab-supervisor.service stays active and restarts a container that exits at once, forever",
        )
