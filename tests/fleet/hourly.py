"""A small recording of several hours, as a recorder would have written it."""

from __future__ import annotations

from pathlib import Path

from tests.recorder.journal import Journal

from zombiescope.core import Reading

WHAT = "cpu_system_seconds_total"


def recording(folder: Path, start: int, hours: int, node: str = "n") -> Path:
    """Ten minutes of one core in each hour from `start` on, the first second of an hour."""
    meta = {"node": node, "kernel": "6.18", "hz": 0, "gives": {"proc_stat": [WHAT]}}
    disk = Journal(str(folder), meta, events=())
    for hour in range(hours):
        began = start + hour * 3600 + 60
        for second in range(0, 600, 10):
            value, at = hour * 10 + second * 0.1, float(began + second)
            disk.add(Reading(what=WHAT, subject="cpu:0", value=value, at=at, source="/proc/stat"))
            disk.look("proc_stat", [WHAT], at)
        disk.flush(float(began))
        disk.rotate()
    disk.close()
    return folder
