"""Every test, in three passes: those that can share the machine on all cores; those that look only at what they made
some at a time, as they mostly wait; then the others one after the other.

One after the other: together the first two took as long as apart, and tests of the second failed. The marker of a test
says in which pass it runs (see conftest.py). Arguments go to all; only when they leave all without a test is that a
failure. A test that failed once has failed: how often one does is what `--rate` measures (see rate.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
from tests import rate

# Twice as many processes as cores: a third of the time a test waits for a command, a browser or a screen. Three times
# as many were no faster.
SHARED = ("--machine=shared", f"--processes={2 * len(os.sched_getaffinity(0))}")
# They wait more than they work.
BESIDE = ("--machine=beside", "--processes=6")
ALONE = ("--machine=alone",)
GO_ON = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
MEMORY, ENOUGH = "/dev/shm", 4 << 30  # bytes: the first pass leaves 0.7 GB


def main(argv: list[str]) -> int:
    if "--rate" in argv:
        return rate.main(argv)
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    codes = []
    with tempfile.TemporaryDirectory(prefix="zombiescope-tests-") as passes:
        argv = [f"--passes={passes}", *argv]
        for options in (SHARED, BESIDE, ALONE):
            with _memory() if options is SHARED else nullcontext("") as memory:
                codes.append(_run(*options, *argv, *([f"--basetemp={memory}/pytest"] if memory else []), memory=memory))
            if codes[-1] not in GO_ON:  # stopped by Ctrl-C, or by a mistake in the arguments
                return codes[-1]
    return max((code for code in codes if code != nothing), default=nothing)


@contextmanager
def _memory() -> Iterator[str]:
    """A folder in memory, where there is enough: tests that write files took a tenth longer on a disk."""
    if not os.path.isdir(MEMORY) or shutil.disk_usage(MEMORY).free < ENOUGH:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="zombiescope-tests-", dir=MEMORY) as folder:
        yield folder


def _run(*argv: str, memory: str = "") -> int:
    # What the first pass compiled is there for the others: each of their processes would take 15 s for it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"TMPDIR": memory} if memory else {}
    return subprocess.run([sys.executable, "-m", "pytest", *argv], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
