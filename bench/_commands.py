"""Run a command and weigh it: CPU seconds and largest memory, from the kernel's own accounting."""

from __future__ import annotations

import os
import subprocess
import sys

from zombiescope.core import UserError


def weigh(*argv: str) -> tuple[float, float]:
    """CPU seconds (user and system) and largest resident bytes of one run."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3):
        raise UserError(f"{' '.join(argv)[:200]} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def command(*argv: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "zombiescope", *argv)


def cpu_of(pid: int) -> float:
    """CPU seconds so far, to the nanosecond (the tick of /proc/PID/stat is too coarse for a hundredth of a core)."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9
