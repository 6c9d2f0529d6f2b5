"""Trap: two unrelated faults at once, a leaking crash loop and a throttled process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._cgroups import join, with_quota
from zombiescope.lab._leaking import leaking
from zombiescope.lab._scenario import PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import LEAKS, restarted

TRUTH = Truth(
    chain=("crash_looping_unit", "zombie_cgroups"),
    subject="unit:ecs.service",
    also=(Truth(chain=("cpu_throttling", "starved_thread"), subject=rf"cgroup:/{PREFIX}second-\d+"),),
    silent=("realtime_hog", "direct_reclaim", "driver_reset", "defunct_processes"),
)
NEEDS = TO_BOOT
SECONDS = 12.0
SHORT = True
PAUSE = 0.1  # seconds between two runs of the unit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with (
        leaking({"ecs.service": restarted(LEAKS, PAUSE)}, label="two", scale=scale),
        with_quota("second") as folder,
        starver("spin") as pid,
    ):
        join(folder, pid)
        says = f"ecs.service crash-loops and leaks; process {pid} needs a core and is throttled to a tenth of one"
        yield Fault(subject="unit:ecs.service", says=says)
