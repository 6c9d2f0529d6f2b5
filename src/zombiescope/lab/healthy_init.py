"""Control: systemd is told to read its units again once, while a few volumes come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._init_mounts import mounting
from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth
from zombiescope.lab._systemd import TO_BOOT, asked_by_diagnosis, booted

TRUTH = Truth(silent=(*CPU_FAULTS, "busy_init", "crash_looping_unit", "empty_scopes"))
NEEDS = TO_BOOT
SECONDS = 8.0
MOUNTS, CHANGES = 100, 2.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    many = round(MOUNTS * min(scale, 10.0))
    with (
        booted({}, label="reload") as systemd,
        asked_by_diagnosis(systemd),
        mounting(systemd.pid, many, CHANGES),
    ):
        systemd.systemctl("daemon-reload")
        yield Fault(subject="node", says=f"systemd has read its units again, and watches {many} mounts")
