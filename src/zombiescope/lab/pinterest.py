"""The incident this tool grew from: an unused agent crash-loops, its dead cgroups are walked, and a card resets.

Real: systemd and the unit it restarts for ever, the dead cgroups, the walk through them, the drowned core, the spells
without interrupts. Injected, and marked so: the driver's lines, since no card here can be starved on demand.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._nic import Queue, say_reset, served_queue
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import LEAKING, asked_by_diagnosis, booted
from zombiescope.lab._walker import walking
from zombiescope.lab._zombies import leaked, memory_folder

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


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    cores = os.sched_getaffinity(0)
    queue = served_queue(cores) or Queue("eth0", 5, max(cores))
    with (
        leaked(max(1_000, round(DEAD * scale)), label="pinterest") as leak,
        booted({"ecs.service": LEAKING.format(pause=PAUSE)}, label="pinterest-systemd") as systemd,
        asked_by_diagnosis(systemd),
        walking(os.path.join(memory_folder(), "memory.stat"), core=queue.core, pages=leak.file),
        _resetting(queue),
    ):
        yield Fault(
            subject="unit:ecs.service",
            says=(
                f"ecs.service crash-loops beside {len(leak.names):,} dead cgroups, which are walked through on core "
                f"{queue.core}; it serves queue {queue.number} of {queue.nic}, whose resets are injected"
            ),
        )


@contextmanager
def _resetting(queue: Queue) -> Iterator[None]:
    ended = threading.Event()

    def reset_now_and_then() -> None:
        pause = RESET_AFTER
        while not ended.wait(pause):
            say_reset(queue)
            pause = EVERY

    worker = threading.Thread(target=reset_now_and_then, daemon=True)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()
