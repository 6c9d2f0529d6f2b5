"""All packets of an interface are steered to one core, more than it can handle, while another core is idle.

Two network namespaces and a veth pair. The receiver's packets are steered by rps_cpus, as interrupt affinity steers
those of a card. Three hundred sockets that each get a copy make every packet expensive. A job is bound to that core, as
a runtime binds one: it is the one that pays, and without it the pile harms nobody.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import UserError
from zombiescope.lab._loads import GROUP, load
from zombiescope.lab._scenario import KERNEL_CAUSES, PREFIX, Fault, Truth
from zombiescope.lab._veth import End, cable, ip
from zombiescope.places.own_python import FOLDER, environment

TRUTH = Truth(chain=("irq_pile_up", "softirq_storm"), subject=r"cpu:\d+", silent=KERNEL_CAUSES)
NEEDS = ("root", "ip")
SECONDS = 8.0
SOCKETS = 300  # with 100 the core is still half idle
JOB = 0.3  # of each tenth of a second: it would fit beside what the packets of one core should take


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise UserError("with one core there is nothing to steer")
    core, sockets = cores[-1], round(SOCKETS * max(scale, 1.0))
    with ExitStack() as undo:
        sender, receiver = undo.enter_context(cable((f"{PREFIX}pa", f"{PREFIX}pb"), "10.213.9"))
        ip("-n", sender.namespace, "route", "add", f"{GROUP}/32", "dev", sender.nic)
        _steer(receiver, core)
        undo.enter_context(load("listen", str(sockets), receiver.address, within=receiver.inside))
        undo.enter_context(load("send", str(cores[0]), sender.address, within=sender.inside))
        victim = undo.enter_context(load("job", str(JOB), within=("taskset", "--cpu-list", str(core))))
        says = f"only core {core} handles packets, each for {sockets} sockets, and process {victim} is bound to it"
        yield Fault(subject=f"cpu:{core}", says=says)


def _steer(end: End, core: int) -> None:
    """Steer the packets to one core. The kernel's masks are groups of 32 bits, the highest first."""
    words = ["00000000"] * (core // 32)
    mask = ",".join([f"{1 << core % 32:x}", *words])
    order = f"echo {mask} > /sys/class/net/{end.nic}/queues/rx-0/rps_cpus"
    command = [*end.inside, "sh", "-c", order]
    done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"cannot steer packets: {done.stderr.strip()}")
