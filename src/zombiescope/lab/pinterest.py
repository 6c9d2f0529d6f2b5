"""The incident this tool grew from: an unused agent crash-loops, its dead cgroups are walked, and a card resets.

Real: systemd and the unit it restarts for ever, the dead cgroups, the walk through them, the drowned core, the spells
without interrupts. Injected, and marked so: the driver's lines, since no card here can be starved on demand. Where Ray
is installed, a real job of two nodes runs beside it: it loses its link at the injected reset, as at a real one,
and Ray, whose health checks are tightened, gives the node up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from zombiescope.lab._nic import Queue, say_reset, served_queue
from zombiescope.lab._ray import cluster
from zombiescope.lab._scenario import Fault, Truth, missing
from zombiescope.lab._systemd import LEAKING, asked_by_diagnosis, booted
from zombiescope.lab._walker import known_cgroups, walking
from zombiescope.lab._zombies import TMPFS, leaked, memory_folder

TRUTH = Truth(
    root="crash_looping_unit",
    subject="unit:ecs.service",
    chain=(
        "crash_looping_unit",
        "zombie_cgroups",
        "cgroup_walker",
        "saturated_core",
        "starved_softirq",
        "driver_reset",
    ),
    silent=("realtime_hog", "cpu_throttling", "direct_reclaim", "oom_kill", "stolen_cpu"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 20.0
DEAD = 20_000  # when it begins; at 2 µs each a read of the statistics keeps interrupts off for 40 ms
PAUSE = 0.3  # seconds between two restarts: three a second, since systemd needs some of the cores too
RESET_AFTER = 12.0  # seconds of starving before the card resets; drivers wait for 5
EVERY = 15.0  # seconds between resets
BREATH = 0.002  # seconds between two walks that can be cured: without the dead a walk is short, and this is most of it


def run(scale: float = 1.0) -> AbstractContextManager[Fault]:
    return incident(scale)


@contextmanager
def incident(scale: float = 1.0, folder: str = TMPFS) -> Iterator[Fault]:
    """In a `folder` on a disk the dead are pinned by page cache, as logs pin them, and a purge cures it.

    The driver's lines come only as long as most of the dead are there: without them nothing starves.
    """
    cores = os.sched_getaffinity(0)
    queue = served_queue(cores) or Queue("eth0", 5, max(cores))
    count = max(1_000, round(DEAD * scale))
    with ExitStack() as undo:
        lose_the_link, job = _job(undo)
        curable = folder != TMPFS
        # Whoever uses the pages of the dead must take less time than the walk: so one page for several of them.
        nested = 4 if curable else 1
        leak = undo.enter_context(leaked(count // nested, label="pinterest", folder=folder, nested=nested))
        enough = known_cgroups() - count // 2
        units = {"ecs.service": LEAKING.format(pause=PAUSE)}
        systemd = undo.enter_context(booted(units, label="pinterest-systemd"))
        undo.enter_context(asked_by_diagnosis(systemd))
        stat = os.path.join(memory_folder(), "memory.stat")
        undo.enter_context(walking(stat, core=queue.core, pause=BREATH * curable, pages=leak.file, curable=curable))
        undo.enter_context(_resetting(queue, lose_the_link, lambda: known_cgroups() >= enough))
        yield Fault(
            subject="unit:ecs.service",
            says=(
                f"ecs.service crash-loops beside {count:,} dead cgroups, which are walked through on core "
                f"{queue.core}; it serves queue {queue.number} of {queue.nic}, whose resets are injected; {job}"
            ),
        )


def _job(undo: ExitStack) -> tuple[Callable[[], None], str]:
    """What happens to a job at a reset, and that in words."""
    if missing(("ray", "ip")):
        return (lambda: None), "no job is there to die of them, since Ray is not installed"
    ray = undo.enter_context(cluster())
    return ray.lose_the_link, "a real Ray job loses its link with them (its health checks are tightened)"


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
