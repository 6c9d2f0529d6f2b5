"""Empty scopes that systemd keeps: it is not notified when their last process exits, as on cgroup v1 in a container."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import UserError
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import PATIENCE, TO_BOOT, asked_by_diagnosis, booted
from zombiescope.lab._units import AFTER_DBUS

TRUTH = Truth(
    chain=("empty_scopes",),
    noted=True,  # 120 of them hold 2 MB, and there will be no more
    subject="node",
    silent=("crash_looping_unit", "mount_explosion", "cpu_throttling", "driver_reset"),
)
NEEDS = TO_BOOT
SECONDS = 5.0
SCOPES = 120
PROGRAM = "/usr/local/lib/zslab-scopes"
UNIT = AFTER_DBUS.format(program=PROGRAM)
# A process that exits before systemd checks the new scope is noticed, so each lives 0.5 s. Twenty at a time, for speed.
MAKE = """
number=0
while [ $number -lt SCOPES ]; do
  number=$((number + 1))
  systemd-run --quiet --scope --unit="run-zslab$number.scope" sleep 0.5 &
  [ $((number % 20)) -eq 0 ] && wait
done
wait
: > /run/zslab-done
exec sleep 600
"""


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    scopes = max(1, round(SCOPES * scale))
    files = {PROGRAM: MAKE.replace("SCOPES", str(scopes))}
    with (
        booted({"zslab-scopes.service": UNIT}, files=files, label="scopes", legacy=True) as systemd,
        asked_by_diagnosis(systemd),
    ):
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(f"{systemd.root}/run/zslab-done"):
            if time.monotonic() > deadline:
                raise UserError(f"{scopes} scopes were not made within {PATIENCE:.0f} s")
            time.sleep(0.1)
        yield Fault(subject="node", says=f"{scopes} scopes of systemd are empty and are not removed")
