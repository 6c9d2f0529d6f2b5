"""What tests of sampling share: programs to run on a core, and reads put together."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.kernel.sampler import RawSamples, Sampler

from zombiescope.kernel.perf_changes import Record

SPIN = "static volatile long n; void spin(void) { for (;;) n++; } int main(void) { spin(); }"
READ = """
#include <fcntl.h>
#include <unistd.h>
static char buffer[1 << 20];
int main(void) { int zero = open("/dev/zero", O_RDONLY); for (;;) read(zero, buffer, sizeof buffer); }
"""
Start = Callable[[str, int], "subprocess.Popen[bytes]"]


def last_cpu() -> int:
    return max(os.sched_getaffinity(0))


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def collected(sampler: Sampler, seconds: float) -> Iterator[list[RawSamples]]:
    """Samples of so many seconds, read in between as a recorder does."""
    sampler.read()
    reads: list[RawSamples] = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.2, left))
        reads.append(sampler.read())
    yield reads


def column(reads: list[RawSamples], name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([getattr(read, name) for read in reads]).astype(np.int64)


def records(reads: list[RawSamples]) -> list[Record]:
    return [record for read in reads for record in read.records]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
