"""A real systemd timer fires forever; its service succeeds and leaves one dying cgroup each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._units import UNITS
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="cgroup_churn",
    subject=r"family:/zslab-.*/system\.slice/zslab-rotate\.service",
    chain=("cgroup_churn", "zombie_cgroups"),
    silent=("crash_looping_unit", "cpu_throttling", "direct_reclaim", "driver_reset"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 12.0
ALREADY = 1_000  # dying cgroups when it begins: about what a timer that fires every minute leaves in a day
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
    with (
        leaked(ALREADY, label="already"),
        booted(units, files={f"{UNITS}/zslab-rotate.service": SERVICE}, label="timer") as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-rotate.service",
            says="zslab-rotate.timer fires several times a second, and each run leaves a file and a dying cgroup",
        )
