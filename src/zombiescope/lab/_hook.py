"""A BPF program at every system call of one process, and that process: roles of the lab, gone with their starter."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from zombiescope.core import Unreadable
from zombiescope.kernel.bpf import Program
from zombiescope.kernel.ebpf import R0, R6, Assembler, Helper
from zombiescope.lab._worker import LONGEST, play, ready, worker


def hook_user(role: str, *argv: str) -> AbstractContextManager[int]:
    """A process in one of the roles below, already at work on entry."""
    return worker(__name__, role, *argv)


def _hooks(pid: str, turns: str) -> None:
    """Watch the system calls of one process; each takes so many turns of a loop. All others pass at once."""
    program = Assembler()
    program.call(Helper.GET_CURRENT_PID_TGID)
    program.shift_right(R0, 32)
    program.jump_if(R0, "!=", int(pid), "out")
    program.set(R6, int(turns))
    program.label("again")
    program.subtract(R6, 1)
    program.jump_if(R6, "!=", 0, "again")
    program.label("out")
    program.set(R0, 0)
    program.exit()
    try:
        with Program(program.assemble(), "zslab_watch") as hook:
            hook.attach("sys_enter")
            ready()
            time.sleep(LONGEST)
    except Unreadable as error:
        print(error, flush=True)


def _calls(share: str) -> None:
    """A program that makes system calls for a share of its time."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        stop = time.monotonic() + 0.1 * float(share)
        while time.monotonic() < stop:
            for _ in range(100):
                os.getppid()
        time.sleep(0.1 * (1 - float(share)))


_ROLES: dict[str, Callable[..., None]] = {"hooks": _hooks, "calls": _calls}

if __name__ == "__main__":
    play(_ROLES)
