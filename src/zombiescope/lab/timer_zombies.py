"""A real systemd timer fires forever; its service succeeds and leaves one dying cgroup each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import churn_of, leaking
from zombiescope.lab._scenario import Fault
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import UNITS

TRUTH = churn_of(r"family:/zslab-.*/system\.slice/zslab-rotate\.service")
NEEDS = TO_BOOT
SECONDS = 12.0
PAUSE = 0.25  # seconds between two: with one a second, it would take half a minute to show, not ten seconds
TIMER = """
[Unit]
DefaultDependencies=no
[Timer]
OnActiveSec=0
OnUnitInactiveSec={pause}
AccuracySec=1ms
Unit=zslab-rotate.service
"""
SERVICE = """
[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
Type=oneshot
MemoryAccounting=yes
ExecStart=/bin/sh -c 'echo rotated > /dev/shm/rotate.$$$$.log'
"""


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    units = {"zslab-rotate.timer": TIMER.format(pause=PAUSE / max(scale, 0.01))}
    with leaking(units, files={f"{UNITS}/zslab-rotate.service": SERVICE}, label="timer") as systemd:
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-rotate.service",
            says="zslab-rotate.timer fires several times a second, and each run leaves a file and a dying cgroup",
        )
