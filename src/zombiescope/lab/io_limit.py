"""A cgroup may write fifty times a second to a loop device, and three programs in it write all the time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import Host, UserError
from zombiescope.kernel.mounts import mount_of
from zombiescope.lab._cgroups import remove
from zombiescope.lab._loop_disk import loop_disk
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth, name_for
from zombiescope.lab._stallers import staller

_OTHERS = tuple(it for it in CPU_CAUSES if it != "blocked_tasks")
TRUTH = Truth(chain=("disk_stall",), subject=rf"cgroup:/{PREFIX}io-\d+", silent=(*_OTHERS, "direct_reclaim"))
NEEDS = ("root",)
SECONDS = 12.0
REQUESTS, WRITERS = 50, 3


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        disk, folder = undo.enter_context(loop_disk("io", 256 << 20))
        top = mount_of(Host(), "blkio").path
        cgroup = f"{top}/{name_for('io')}"
        os.mkdir(cgroup)
        undo.callback(remove, cgroup)
        number = os.stat(disk).st_rdev
        limit = f"{os.major(number)}:{os.minor(number)} {max(1, round(REQUESTS / scale))}"
        try:
            with open(f"{cgroup}/blkio.throttle.write_iops_device", "w") as file:
                file.write(limit)
        except OSError as error:
            raise UserError(f"cannot limit I/O here: {cgroup}: {error.strerror}") from error
        for place in range(WRITERS):
            undo.enter_context(staller("writes", f"{folder}/{place}", cgroup))
        yield Fault(subject=f"cgroup:{cgroup.removeprefix(top)}", says=f"its writes to {disk} are limited: {limit}")
