"""What was read on the node of the incident: twelve minutes, once a second, with five stalls of a core."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.nodes import T0

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.tape import Tape

SECONDS = 720
STALLS = (71, 197, 331, 467, 601)  # seconds into the recording: the core drowns, 5 s later the driver gives up
LOST = STALLS[1], STALLS[4]  # the stalls that a job did not survive
SOURCES = {
    "unit_restarts_total": "$ systemctl show ecs.service -p NRestarts",
    "cgroups_known": "/proc/cgroups",
    "cgroups_dying": "/proc/cgroups",
    "cgroup_folders": "$ find /sys/fs/cgroup/memory -type d | wc -l",
    "cpu_system_seconds_total": "/proc/stat",
    "thread_wait_seconds_total": "/proc/58/schedstat",
    "kernel_log": "/dev/kmsg",
}


def stalled(second: int) -> bool:
    return any(begin <= second < begin + 6 for begin in STALLS)


WAIT = ("thread_wait_seconds_total", "thread:ksoftirqd/5")
CURVES: dict[tuple[str, str], Callable[[int], float]] = {
    ("unit_restarts_total", "unit:ecs.service"): lambda second: 68_000 + second // 10,
    ("cgroups_dying", "controller:memory"): lambda second: 68_369 + second // 10,
    ("cgroups_known", "controller:memory"): lambda second: 68_609 + second // 10,
    ("cgroup_folders", "controller:memory"): lambda _: 240,
    ("cpu_system_seconds_total", "cpu:5"): lambda second: sum(0.98 if stalled(it) else 0.05 for it in range(second)),
    WAIT: lambda second: sum(0.95 if stalled(it) else 0.001 for it in range(second)),
}


@cache
def timeline() -> Timeline:
    tape = Tape()
    for (what, subject), curve in CURVES.items():
        for second in range(SECONDS + 1):
            tape.add(reading(what, subject, curve(second), second))
    for what in {what for what, _ in CURVES}:
        for second in range(SECONDS + 1):
            tape.look("probe", (what,), T0 + second)
    for begin in STALLS:
        tape.add(reset_line(begin))
    return tape.timeline()


def reading(what: str, subject: str, value: float, at: float, text: str = "") -> Reading:
    source = SOURCES.get(what, f"/proc/{what}")
    return Reading(what=what, subject=subject, value=value, at=T0 + at, source=source, text=text)


def reset_line(begin: int) -> Reading:
    words = (
        "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000000). Time since last napi 5120000 usec."
    )
    return reading("kernel_log", "node", 3, begin + 5, words)


def at_end(what: str, subject: str, text: str = "") -> Reading:
    return reading(what, subject, CURVES[what, subject](SECONDS), SECONDS, text)
