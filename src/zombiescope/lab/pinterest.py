"""The incident behind this tool: an unused agent crash-loops, its dying cgroups are walked, a network card resets.

Real: systemd and the unit it restarts forever, the dying cgroups, the walks over them, the saturated core, the periods
with interrupts off. Injected, and marked so: the driver's log lines, since no card here can be starved on demand. Where
Ray is installed, a real job on two nodes runs beside it: it loses its link at the injected reset, as at a real one, and
Ray, whose health checks are tightened, declares the node dead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from zombiescope.lab._nic import Queue, say_reset, served_queue
from zombiescope.lab._ray import cluster
from zombiescope.lab._scenario import Fault, Truth, missing
from zombiescope.lab._systemd import TO_BOOT, asked_by_diagnosis, booted
from zombiescope.lab._units import LEAKS, restarted
from zombiescope.lab._walker import known_cgroups, walking
from zombiescope.lab._zombies import TMPFS, leaked, memory_folder

TRUTH = Truth(
    chain=(
        "crash_looping_unit",
        "zombie_cgroups",
        "cgroup_walker",
        "saturated_core",
        "starved_softirq",
        "driver_reset",
    ),
    subject="unit:ecs.service",
    silent=("realtime_hog", "cpu_throttling", "direct_reclaim", "oom_kill"),
)
NEEDS = TO_BOOT
SECONDS = 20.0
DEAD = 20_000  # dying cgroups when it begins; at 2 µs each, one read of the statistics keeps interrupts off for 40 ms
# Changing the pages must take less time than the walk, so one page pins a chain of dying cgroups: 4 ms against 70 to
# 120 ms for 20,000 of them in chains of eight.
NESTED = 8
PAUSE = 0.3  # seconds between two restarts: three a second, since systemd needs CPU too
RESET_AFTER = 12.0  # seconds of starvation before the card resets; drivers wait for 5
EVERY = 15.0  # seconds between resets
BREATH = 0.002  # seconds between two walks where a fix is tested: after it walks are short, so the core is mostly idle


def run(scale: float = 1.0) -> AbstractContextManager[Fault]:
    return incident(scale)


@contextmanager
def incident(
    scale: float = 1.0, folder: str = TMPFS, before_walk: Callable[[], None] = lambda: None
) -> Iterator[Fault]:
    """With a `folder` on a disk the dying cgroups are pinned by page cache, as by logs, and a purge fixes it.

    `before_walk` is called when all but the walks is there: a unit crash-loops, cgroups are dying, nothing starves.
    The driver's lines are written only while most of the dying cgroups exist: without them nothing starves.
    """
    cores = os.sched_getaffinity(0)
    queue = served_queue(cores) or Queue("eth0", 5, max(cores))
    count = max(1_000, round(DEAD * scale))
    with ExitStack() as undo:
        lose_the_link, job = _job(undo)
        curable = folder != TMPFS
        leak = undo.enter_context(leaked(count // NESTED, label="pinterest", folder=folder, nested=NESTED))
        enough = known_cgroups() - count // 2
        units = {"ecs.service": restarted(LEAKS, PAUSE)}
        systemd = undo.enter_context(booted(units, label="pinterest-systemd"))
        undo.enter_context(asked_by_diagnosis(systemd))
        stat = os.path.join(memory_folder(), "memory.stat")
        before_walk()
        undo.enter_context(walking(stat, core=queue.core, pause=BREATH * curable, pages=leak.file))
        undo.enter_context(_resetting(queue, lose_the_link, lambda: known_cgroups() >= enough))
        yield Fault(
            subject="unit:ecs.service",
            says=(
                f"ecs.service crash-loops beside {count:,} dying cgroups, which a process walks on core {queue.core}; "
                f"that core serves queue {queue.number} of {queue.nic}, whose resets are injected; {job}"
            ),
        )


def _job(undo: ExitStack) -> tuple[Callable[[], None], str]:
    """What happens to a job at a reset: the function that does it, and a sentence."""
    if missing(("ray", "ip")):
        return (lambda: None), "no job is affected, since Ray is not installed"
    ray = undo.enter_context(cluster())
    return ray.lose_the_link, "a real Ray job loses its link at each reset (its health checks are tightened)"


@contextmanager
def _resetting(queue: Queue, lose_the_link: Callable[[], None], starves: Callable[[], bool]) -> Iterator[None]:
    ended = threading.Event()

    def reset_now_and_then() -> None:
        pause = RESET_AFTER
        while not ended.wait(pause):
            if starves():
                say_reset(queue)
                lose_the_link()
            pause = EVERY

    worker = threading.Thread(target=reset_now_and_then, daemon=True)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()
