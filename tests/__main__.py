"""Every test, in three passes: those that can share the machine on all cores; those that look only at what they made
some at a time, as they mostly wait; then the others one after the other.

The marker of a test says in which it runs (see conftest.py). Arguments go to all; only when they leave all without a
test is that a failure. A few tests of a real machine that fail are run once more, alone: neighbours take cores away.
One that fails twice has failed; one that does not is listed at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# A file's tests stay on one core: what a module or a session builds for them is built once.
# One process more than cores: a fifth of the time a test waits for a command, a browser or a screen.
SHARED = ("--machine=shared", f"--numprocesses={len(os.sched_getaffinity(0)) + 1}", "--dist=loadfile")
BESIDE = ("--machine=beside", "--numprocesses=3", "--dist=loadfile")  # they wait more than they work
ALONE = ("--machine=alone",)
GO_ON = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
FEW = 5  # failures of a pass: more are no accident


def main(argv: list[str]) -> int:
    codes = []
    unsteady: list[str] = []
    long = [it for it in argv if it == "--long"]
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    with tempfile.NamedTemporaryFile(prefix="zombiescope-tests-") as passes:
        for options in (SHARED, BESIDE, ALONE):
            code = _pytest(*options, f"--passes={passes.name}", *argv)
            if code == pytest.ExitCode.TESTS_FAILED and options is not SHARED:
                failed = json.loads(Path(passes.name).read_text())["failed"]
                if 0 < len(failed) <= FEW and _pytest(*failed, *long) == pytest.ExitCode.OK:
                    unsteady += failed
                    code = pytest.ExitCode.OK
            codes.append(code)
            if code not in GO_ON:  # stopped by Ctrl-C, or by a mistake in the arguments
                return code
    for test in unsteady:
        print(f"failed, then passed when it was run again: {test}")
    return max((code for code in codes if code != nothing), default=nothing)


def _pytest(*argv: str) -> int:
    # What the first pass compiled is there for the others: each of their processes would take 15 s for it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, "-m", "pytest", *argv], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
