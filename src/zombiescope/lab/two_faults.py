"""Trap: two unrelated faults at once, a leaking crash loop and a throttled process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._cgroups import join, with_quota
from zombiescope.lab._scenario import PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver
from zombiescope.lab._systemd import LEAKING, asked_by_diagnosis, booted
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="crash_looping_unit",
    subject="unit:ecs.service",
    chain=("crash_looping_unit", "zombie_cgroups"),
    also=(
        Truth(
            root="cpu_throttling",
            subject=rf"cgroup:/{PREFIX}second-\d+",
            chain=("cpu_throttling", "starved_thread"),
        ),
    ),
    silent=("realtime_hog", "direct_reclaim", "driver_reset", "defunct_processes"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 12.0
SHORT = True
ALREADY = 1_000  # dying cgroups when it begins
PAUSE = 0.1  # seconds between two runs of the unit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with (
        leaked(round(ALREADY * max(scale, 1.0)), label="already"),
        booted({"ecs.service": LEAKING.format(pause=PAUSE)}, label="two") as systemd,
        asked_by_diagnosis(systemd),
        with_quota("second") as folder,
        starver("spin") as pid,
    ):
        join(folder, pid)
        says = f"ecs.service crash-loops and leaks; process {pid} needs a core and is throttled to a tenth of one"
        yield Fault(subject="unit:ecs.service", says=says)
