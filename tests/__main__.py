"""Every test, in three passes: those that can share the machine on all cores; those that look only at what they made
some at a time, as they mostly wait; then the others one after the other.

The marker of a test says in which it runs (see conftest.py). Arguments go to all; only when they leave all without a
test is that a failure.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

# A file's tests stay on one core: what a module or a session builds for them is built once.
SHARED = ("--machine=shared", "--numprocesses=auto", "--dist=loadfile")
BESIDE = ("--machine=beside", "--numprocesses=3", "--dist=loadfile")
ALONE = ("--machine=alone",)
GO_ON = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def main(argv: list[str]) -> int:
    codes = []
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    with tempfile.NamedTemporaryFile(prefix="zombiescope-tests-") as passes:
        for options in (SHARED, BESIDE, ALONE):
            command = [sys.executable, "-m", "pytest", *options, f"--passes={passes.name}", *argv]
            codes.append(subprocess.run(command, check=False).returncode)
            if codes[-1] not in GO_ON:  # stopped by Ctrl-C, or by a mistake in the arguments
                return codes[-1]
    return max((code for code in codes if code != nothing), default=nothing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
