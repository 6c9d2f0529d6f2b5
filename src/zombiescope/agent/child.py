"""How the agent's children start: they end with it, and then are an ordinary command of ours.

The kernel ends them if the agent is killed (PR_SET_PDEATHSIG): nobody records on without somebody who watches it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

from zombiescope.places import own_processes

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        sys.exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv.pop(1)))
    own_processes.begin(os.getppid())
    runpy.run_module("zombiescope", run_name="__main__", alter_sys=True)
