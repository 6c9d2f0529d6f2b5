"""Memory that was freed is used again, where the C library can be told so."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

WORK = """
import resource, sys
if sys.argv[1] == "reused":
    from zombiescope.cli._allocating import reuse_freed
    reuse_freed()
import numpy as np
def work():
    for _ in range(4):
        np.ones(6 << 20)  # 48 MB: more than glibc keeps by itself
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_the_kernel_does_not_fill_the_same_pages_with_zeros_again_and_again() -> None:
    faults = {}
    for how in ("reused", "plain"):
        argv = [sys.executable, "-c", WORK, how]
        environment = {"NUMPY_MADVISE_HUGEPAGE": "0", "OPENBLAS_NUM_THREADS": "1"}
        told = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=environment)
        faults[how] = int(told.stdout)
    assert faults["reused"] * 10 < faults["plain"], faults
