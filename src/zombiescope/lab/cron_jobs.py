"""Control: 40 short jobs a minute, each in a memory cgroup of its own; page cache of the last ones is still charged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.kernel.lru_drain import drain
from zombiescope.lab._cgroups import remove
from zombiescope.lab._innocents import innocent, own_folder
from zombiescope.lab._scenario import Fault, Truth, name_for
from zombiescope.lab._zombies import memory_folder

TRUTH = Truth(silent=("zombie_cgroups", "cgroup_churn", "cgroup_walker", "saturated_core", "fork_storm"))
NEEDS = ("root",)
SECONDS = 10.0
PAUSE = 1.4  # seconds between two


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    parent = os.path.join(memory_folder(), name_for("cron"))
    os.mkdir(parent)
    try:
        with own_folder("cron") as logs, innocent("schedule", parent, logs, str(PAUSE / max(scale, 0.01))) as pid:
            yield Fault(subject="node", says=f"process {pid} runs a short job every {PAUSE} s")
    finally:
        drain()  # so that the last ones are released now
        remove(parent)
