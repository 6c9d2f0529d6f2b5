"""Trap: a throttled process exits and its cgroup is removed before the diagnosis: only the recording shows it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._cgroups import join, throttling_of, with_quota
from zombiescope.lab._scenario import Fault
from zombiescope.lab._starvers import starver

TRUTH = throttling_of("over")
NEEDS = ("root",)
SECONDS = 14.0
LASTS = 10.0  # seconds; the recording goes on for a few more
RECORDED = True
SHORT = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    lasts = LASTS * max(scale, 1.0)
    with ExitStack() as fault:
        folder = fault.enter_context(with_quota("over"))
        join(folder, fault.enter_context(starver("spin")))
        over = threading.Timer(lasts, fault.close)
        over.start()
        try:
            subject = f"cgroup:/{os.path.basename(folder)}"
            yield Fault(subject=subject, says=f"a process is throttled for {lasts:.0f} seconds and then exits")
        finally:
            over.cancel()
            over.join()
