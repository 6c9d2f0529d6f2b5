"""A cgroup with a CPU quota of 0.1 core runs one busy process and is throttled, while other cores are idle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._cgroups import PERIOD, QUOTA, join, throttling_of, with_quota
from zombiescope.lab._scenario import Fault
from zombiescope.lab._starvers import starver

TRUTH = throttling_of("throttled")
NEEDS = ("root",)
SECONDS = 8.0
SHORT = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one throttled process is the fault
    with with_quota("throttled") as folder, starver("spin") as pid:
        join(folder, pid)
        subject = f"cgroup:/{os.path.basename(folder)}"
        yield Fault(subject=subject, says=f"process {pid} is throttled by a quota of {QUOTA / PERIOD:.0%} of a core")
