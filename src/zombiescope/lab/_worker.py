"""The lab's own processes: each has one role and a name of the lab, and exits with the process that started it.

A module of roles hands itself and its table to `worker` and `play`. A process prints its pid when it is working. It
exits when its starter does, however that ends, and at the latest after `LONGEST` seconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from zombiescope.core import UserError
from zombiescope.lab._scenario import PREFIX, Fault
from zombiescope.places.own_python import FOLDER, environment, own_python

LONGEST = 600  # seconds: longer than anyone keeps a fault for study
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


@contextmanager
def worker(module: str, role: str, *argv: str, within: Sequence[str] = ()) -> Iterator[int]:
    """A process in a role, already working on entry; `within` is a command that runs it, such as `ip netns exec`."""
    command = [*within, *own_python(module, role, *argv)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=FOLDER, env=environment())
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode().strip()
        if not said.isdecimal():
            raise UserError(f"the lab could not start its {role}: {said or 'it exited at once'}")
        yield int(said)
    finally:
        process.kill()
        process.communicate()


def on_one_core(
    start: Callable[[str, str], AbstractContextManager[int]], role: str, says: str
) -> Callable[..., AbstractContextManager[Fault]]:
    """The `run` of a control that is one process on one core, at any scale; `says` has {pid} and {core}."""

    @contextmanager
    def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one process is all of it
        core = _undisturbed_core()
        with start(role, str(core)) as pid:
            yield Fault(subject="node", says=says.format(pid=pid, core=core))

    return run


def _undisturbed_core() -> int:
    """The core that devices interrupt least, as who gives a core to a poller would choose.

    What an interrupt leaves for later is done by a kernel worker of the same core, which would wait for the poller.
    """
    ours = os.sched_getaffinity(0)
    counts = dict.fromkeys(ours, 0)
    with open("/proc/interrupts") as table:
        heads = [int(it.removeprefix("CPU")) for it in table.readline().split()]
        for line in table:
            label, _, rest = line.partition(":")
            if label.strip().isdecimal():  # of a device; timers and calls between cores have names
                for core, count in zip(heads, rest.split(), strict=False):
                    counts[core] = counts.get(core, 0) + int(count)
    return min(sorted(ours, reverse=True), key=lambda core: counts[core])


def play(roles: Mapping[str, Callable[..., None]]) -> None:
    """The main function of a module of roles."""
    role, *argv = sys.argv[1:]
    die_with_parent()
    with suppress(PermissionError):  # a fault that was started with `nice` would be one of low priority, which may wait
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    call_me(role)
    roles[role](*argv)


def ready() -> None:
    """Report that the work starts now."""
    print(os.getpid(), flush=True)


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.alarm(LONGEST)


def call_me(role: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, f"{PREFIX}{role}".encode(), 0, 0, 0)
