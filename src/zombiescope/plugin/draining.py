"""A node's pods are moved elsewhere by the agent of the *remediate* variant; undo makes the node usable again.

What the agent's pod cannot do, as it sees the node read-only, is printed: above all the reboot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.core.commands import command
from zombiescope.plugin.kubectl import Kubectl, talk
from zombiescope.plugin.pods import Pod

REMEDY = "drain_and_reboot"
COMMAND = ("python3", "-I", "-m", "zombiescope.kubernetes.drain_command")  # in the image
MARKER = "/var/run/reboot-required"  # that kured waits for


def planned(told: Mapping[str, Any]) -> bool:
    """Whether a reboot is among what would help, and nothing else in the cluster drains for it."""
    for plan in told["remedies"]:
        if plan["name"] == REMEDY:
            return [it["argv"][:1] for it in plan["steps"]] != [["touch"]]
    return False


def drained(kubectl: Kubectl, pod: Pod, node: str) -> int:
    """Cordoned, then every pod evicted that may be; its exit code."""
    back = command("kubectl", "zombiescope", "drain", node, "--undo")
    for what in ("cordon", "drain"):
        if code := kubectl.passed_on(*pod.command(*COMMAND, what, node)):
            talk(f"{node} is not drained; {back} makes it usable again")
            return code
    talk(f"to reboot it, on the node, as root: systemctl reboot, or for kured: {command('touch', MARKER)}")
    talk(f"afterwards: {back}")
    return 0


def undone(kubectl: Kubectl, pod: Pod, node: str) -> int:
    return kubectl.passed_on(*pod.command(*COMMAND, "uncordon", node))
