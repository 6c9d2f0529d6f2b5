"""A cgroup whose threads are at their limit, and a program in it that goes on trying to start more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import mount_of
from zombiescope.lab._cgroups import remove
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth, name_for
from zombiescope.lab._stallers import staller

TRUTH = Truth(chain=("table_full",), subject=rf"cgroup:/{PREFIX}pids-\d+", silent=CPU_CAUSES)
NEEDS = ("root",)
SECONDS = 8.0
LIMIT = 20


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    top = mount_of(Host(), "pids").path
    folder = f"{top}/{name_for('pids')}"
    os.mkdir(folder)
    try:
        try:
            with open(f"{folder}/pids.max", "w") as limit:
                limit.write(str(max(5, round(LIMIT * scale))))
        except OSError as error:
            raise UserError(f"cannot limit threads here: {folder}/pids.max: {error.strerror}") from error
        with staller("forks", folder) as pid:
            path = folder.removeprefix(top)
            yield Fault(subject=f"cgroup:{path}", says=f"process {pid} in {path} tries to start more than it may")
    finally:
        remove(folder)
