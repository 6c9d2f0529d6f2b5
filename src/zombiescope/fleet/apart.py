"""Work on what a node sent, in a process of its own: whatever it does there, it ends, and costs nobody else."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable

SECONDS = 120  # a batch takes one or two
MEMORY = 8 << 30  # bytes of address space


def done_apart(work: Callable[[], None], seconds: int = SECONDS) -> bool:
    """Run `work` in a fork; True if it came to its end. It leaves its results in files."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.alarm(seconds)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most < 0 else min(MEMORY, most), most))
        work()
        code = 0
    finally:
        # The parent's own clean-up (open files, exit handlers) must not run twice.
        if code and os.environ.get("ZOMBIESCOPE_DEBUG"):
            traceback.print_exc()
        os._exit(code)
