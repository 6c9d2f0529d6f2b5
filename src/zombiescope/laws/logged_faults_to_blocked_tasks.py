"""A network device that is never released is waited for under the lock of all network settings: others wait too."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.kernel_messages import recognise

WITHIN = 600.0  # seconds: the device is waited for until its last reference goes
# Where tasks sleep that wait for network settings, or for a namespace to be removed: /proc/PID/wchan.
_NETWORK = ("rtnl_lock", "rtnetlink_rcv", "cleanup_net", "netdev_wait_allrefs", "netdev_run_todo", "copy_net_ns")


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    message = recognise(cause.evidence[0].text)
    if message is None or message.kind != "netdev_stuck":
        return
    waits = [it for it in effect.evidence if any(name in it.text for name in _NETWORK)]
    if waits:
        who, device = waits[0].subject.removeprefix("process:"), message.fields["device"]
        says = f"{who} waits in {waits[0].text} while the device {device} is not released"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
