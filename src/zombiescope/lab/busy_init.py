"""systemd with 32,000 mounts reads their whole table again at changes, of which there are twenty a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._init_mounts import mounting
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT, asked_by_diagnosis, booted

TRUTH = Truth(
    chain=("busy_init",),
    subject=r"process:systemd\[\d+\]",
    silent=("crash_looping_unit", "cpu_throttling", "fork_storm", "blocked_tasks", "empty_scopes"),
)
NEEDS = TO_BOOT
SECONDS = 14.0
MOUNTS, CHANGES = 32_000, 20.0  # a fraction of what runtimes were seen to leak; with fewer it still answers quickly


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    many = min(round(MOUNTS * max(scale, 0.1)), 40_000)
    with (
        booted({}, label="init") as systemd,
        asked_by_diagnosis(systemd),
        mounting(systemd.pid, many, CHANGES) as pid,
    ):
        says = f"process {pid} changes the {many:,} mounts that systemd watches {CHANGES:.0f} times a second"
        yield Fault(subject=f"process:systemd[{systemd.pid}]", says=says)
