"""Naming 20,000 dead cgroups, against walking as many plain folders, and against following them by tracepoints."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator

from zombiescope.core import Host, UserError
from zombiescope.kernel.cgroup_events import CgroupEvents, watching
from zombiescope.kernel.named_zombies import named
from zombiescope.lab._zombies import leaked

COUNT = 20_000
RUNS = 5


def ratios() -> Iterator[tuple[str, float, float, str]]:
    folders = _folders()
    with watching() as events:
        following = _Follower(events)
        with leaked(COUNT, label="bench"):
            followed, seen = following.stop()
            naming, kernel, found = _naming()
    if found < COUNT:
        raise UserError("the dead could not all be named here")
    each = f"{naming / COUNT * 1e6:.1f} µs each, {kernel / COUNT * 1e6:.1f} of them in the kernel"
    yield (
        "naming against a walk over folders",
        naming / folders,
        8.0,
        f"{each}; a folder costs {folders / COUNT * 1e6:.1f} µs",
    )
    detail = f"{each}; an event costs {followed / seen * 1e6:.1f} µs, and each of the dead is three"
    yield "naming against following by tracepoints", naming / (followed / seen * 3 * COUNT), 1.0, detail
    yield "kernel time of one visit against 5 µs", kernel / COUNT / 5e-6, 1.0, f"{kernel / COUNT * 1e6:.2f} µs"


def _naming() -> tuple[float, float, int]:
    best, kernel, found = float("inf"), 0.0, 0
    for _ in range(RUNS):
        started = time.process_time()
        result = named(Host())
        best, kernel, found = min(best, time.process_time() - started), result.kernel_seconds, len(result.zombies)
    return best, kernel, found


def _folders() -> float:
    """A plain walk, as `find` does it, over as many folders."""
    with tempfile.TemporaryDirectory() as top:
        for number in range(COUNT):
            os.mkdir(f"{top}/{number}")
        best = float("inf")
        for _ in range(RUNS):
            started = time.process_time()
            count = sum(1 for _ in os.walk(top))
            best = min(best, time.process_time() - started)
        assert count == COUNT + 1
        return best


class _Follower:
    """Reads events while they come, as a watcher would, and weighs itself."""

    def __init__(self, events: CgroupEvents) -> None:
        self._events, self._end = events, threading.Event()
        self.cost, self.seen = 0.0, 0
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        started = time.thread_time()
        while True:
            ending = self._end.is_set()
            self.seen += len(self._events.read())
            if ending:
                break
            time.sleep(0.05)
        self.cost = time.thread_time() - started

    def stop(self) -> tuple[float, int]:
        self._end.set()
        self._thread.join()
        return self.cost, max(self.seen, 1)
