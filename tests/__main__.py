"""Every test, in three passes: those that can share the machine on all cores; those that look only at what they made
some at a time, as they mostly wait; then the others one after the other.

One after the other: together the first two took as long as apart, and tests of the second failed. The marker of a test
says in which pass it runs (see conftest.py). Arguments go to all; only when they leave all without a test is that a
failure. A few tests of a real machine that fail are run once more, alone: neighbours take cores away. One that fails
twice has failed; one that does not is listed at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

# Twice as many processes as cores: a third of the time a test waits for a command, a browser or a screen. Three times
# as many were no faster.
SHARED = ("--machine=shared", f"--processes={2 * len(os.sched_getaffinity(0))}")
# They wait more than they work.
BESIDE = ("--machine=beside", "--processes=6")
ALONE = ("--machine=alone",)
GO_ON = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
MEMORY, ENOUGH = "/dev/shm", 4 << 30  # bytes: the first pass leaves 0.7 GB
FEW = 5  # failures of a pass: more are no accident


def main(argv: list[str]) -> int:
    unsteady: list[str] = []
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    codes = []
    with tempfile.TemporaryDirectory(prefix="zombiescope-tests-") as passes:
        argv = [f"--passes={passes}", *argv]
        for options in (SHARED, BESIDE, ALONE):
            with _memory() if options is SHARED else nullcontext("") as memory:
                code = _run(*options, *argv, *([f"--basetemp={memory}/pytest"] if memory else []), memory=memory)
            codes.append(code if options is SHARED else _again(code, options, argv, unsteady))
            if codes[-1] not in GO_ON:  # stopped by Ctrl-C, or by a mistake in the arguments
                return codes[-1]
    for test in unsteady:
        print(f"failed, then passed when it was run again: {test}")
    return max((code for code in codes if code != nothing), default=nothing)


def _again(code: int, options: tuple[str, ...], argv: list[str], unsteady: list[str]) -> int:
    """The end of a pass: if a few of its tests failed, that of a second run of these, alone; they are unsteady then."""
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    passes, machine = (it.partition("=")[2] for it in (argv[0], options[0]))
    failed = json.loads(Path(passes, f"{machine}.json").read_text())["failed"]
    if not 0 < len(failed) <= FEW:
        return code
    if _run(*failed, *(it for it in argv if it == "--long")) != pytest.ExitCode.OK:
        return code
    unsteady += failed
    return pytest.ExitCode.OK


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
