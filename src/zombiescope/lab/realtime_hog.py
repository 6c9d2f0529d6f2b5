"""A process with real-time priority keeps a network interface's NAPI thread off its core: packets wait.

Two network namespaces and a veth pair. veth uses NAPI only with GRO on and segmentation off. Its thread has normal
priority: bound to the same core, it runs only while the real-time process sleeps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from zombiescope.core import UserError
from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver
from zombiescope.lab._veth import cable

TRUTH = Truth(chain=("realtime_hog", "starved_softirq"), subject=rf"process:{PREFIX}hog\[\d+\]", silent=CPU_CAUSES)
NEEDS = ("root", "ip")
SECONDS = 8.0
SHORT = True
_TO = f"{PREFIX}vb"
_PATIENCE = 10.0  # seconds for a thread to appear


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one hog is the fault
    core = max(os.sched_getaffinity(0))
    with ExitStack() as undo:
        sender, receiver = undo.enter_context(cable((f"{PREFIX}va", _TO), "10.213.7"))
        for end, settings in ((sender, ("tso=0", "tx=0")), (receiver, ("gro=1",))):
            with starver("offload", end.nic, *settings, within=end.inside):
                pass
        for thread in _napi_threads():
            os.sched_setaffinity(thread, {core})
        undo.enter_context(starver("send", receiver.address, within=sender.inside))
        hog = undo.enter_context(starver("hog", str(core)))
        yield Fault(subject=f"process:{PREFIX}hog[{hog}]", says=f"napi/{_TO} starves on core {core}")


def _napi_threads() -> list[int]:
    """The NAPI threads of our interface. Old kernels cut names to 15 characters."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{pid}/comm") as comm:
                if comm.read().startswith(f"napi/{_TO}"):
                    found.append(int(pid))
        if found:
            return found
        time.sleep(0.05)
    raise UserError("no NAPI thread appeared: threaded NAPI needs kernel 5.12 or later")
