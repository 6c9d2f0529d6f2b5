"""All packets of an interface are steered to one core, which has more to do with them than it can, while another idles.

Two network namespaces and a pair of virtual interfaces; the receiving one's packets are steered by rps_cpus, as an
interrupt's affinity steers a card's. Two hundred sockets that each get a copy make every packet dear.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.core import UserError
from zombiescope.lab._loads import GROUP, load
from zombiescope.lab._scenario import PREFIX, Fault, Truth, name_for

TRUTH = Truth(
    root="irq_pile_up",
    subject=r"cpu:\d+",
    chain=("irq_pile_up", "softirq_storm"),
    silent=("direct_reclaim", "page_fault_storm", "slab_bloat", "mount_explosion"),
)
NEEDS = ("root", "ip")
SECONDS = 8.0
SOCKETS = 300  # with 100 the core has half its time left
_FROM, _TO = f"{PREFIX}pa", f"{PREFIX}pb"
_SENDS, _RECEIVES = "10.213.9.1", "10.213.9.2"


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise UserError("with one core there is nothing to steer")
    core, sockets = cores[-1], round(SOCKETS * max(scale, 1.0))
    sender, receiver = name_for("pile-a"), name_for("pile-b")
    with ExitStack() as undo:
        for namespace in (sender, receiver):
            _ip("netns", "add", namespace)
            undo.callback(_ip, "netns", "delete", namespace)
        inside = {name: ("ip", "netns", "exec", name) for name in (sender, receiver)}
        _ip("-n", sender, "link", "add", _FROM, "type", "veth", "peer", "name", _TO, "netns", receiver)
        for namespace, nic, address in ((sender, _FROM, _SENDS), (receiver, _TO, _RECEIVES)):
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", nic)
            _ip("-n", namespace, "link", "set", nic, "up")
        _ip("-n", sender, "route", "add", f"{GROUP}/32", "dev", _FROM)
        _steer(inside[receiver], core)
        undo.enter_context(load("listen", str(sockets), _RECEIVES, within=inside[receiver]))
        undo.enter_context(load("send", str(cores[0]), _SENDS, within=inside[sender]))
        yield Fault(
            subject=f"cpu:{core}", says=f"core {core} handles each packet for {sockets} sockets, and no other does"
        )


def _steer(within: tuple[str, ...], core: int) -> None:
    """The kernel's masks are groups of 32 bits, the highest first."""
    words = ["00000000"] * (core // 32)
    mask = ",".join([f"{1 << core % 32:x}", *words])
    path = f"/sys/class/net/{_TO}/queues/rx-0/rps_cpus"
    done = subprocess.run([*within, "sh", "-c", f"echo {mask} > {path}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"cannot steer packets: {done.stderr.strip()}")


def _ip(*argv: str) -> None:
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"ip {' '.join(argv)}: {done.stderr.strip()}")
