"""Control: a real compiler builds generated C files, two at a time, over and over."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth, name_for
from zombiescope.lab._worker import die_with_parent

TRUTH = Truth(
    silent=(
        *("cpu_throttling", "stolen_cpu", "realtime_hog", "starved_thread", "fork_storm"),
        *("defunct_processes", "blocked_tasks", "saturated_core", "starved_softirq", "driver_reset"),
    )
)
NEEDS = ("gcc",)
SECONDS = 8.0
FILES = 40
_FUNCTION = 'int f{0}(int x, char *s) {{ char b[64]; snprintf(b, 64, "%d%s", x, s); return strlen(b) * x + {0}; }}\n'
# Two at a time, without make: all files in turn, for ever.
_BUILD = "while :; do printf '%s\\n' *.c | xargs -P 2 -I{} gcc -O2 -c {} -o {}.o; done"


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    functions = "".join(_FUNCTION.format(number) for number in range(max(1, round(40 * scale))))
    with tempfile.TemporaryDirectory(prefix=f"{name_for('compile')}-", ignore_cleanup_errors=True) as folder:
        for number in range(FILES):
            with open(os.path.join(folder, f"{number}.c"), "w") as source:
                source.write(f"#include <stdio.h>\n#include <string.h>\n{functions}")
        build = subprocess.Popen(
            ["sh", "-c", _BUILD],
            cwd=folder,
            env={**os.environ, "TMPDIR": folder},  # what a compiler leaves behind when it is killed goes with the rest
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            yield Fault(subject="node", says=f"{FILES} C files are compiled over and over")
        finally:
            os.killpg(build.pid, signal.SIGKILL)
            build.wait()
