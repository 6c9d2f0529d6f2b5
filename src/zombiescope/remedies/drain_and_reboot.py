"""Reboot a node that nothing milder fixes, after its work has moved elsewhere.

Only for harm that was seen: dying cgroups that slow something down, or a core that got stuck without a known cause. A
Kubernetes node is cordoned and drained, by eviction, which respects disruption budgets; a marker then asks for the
reboot. Where kured runs, it does all that itself, one node at a time, and the marker is enough. On any other host this
is advice: only its owner knows where the work can go.

Disruptive: every pod is moved and emptyDir data is lost. Pods without a controller stop the drain. Undo removes the
    marker and uncordons the node, unless somebody else had cordoned it; pods that were moved stay where they are.
Does not fix: whatever makes dying cgroups: they pile up again (see stop_leaking_unit, and `zombiescope gate`
    for the image). Try purge_zombies first: it needs no reboot.
References: the API server is found by KUBECONFIG, ~/.kube/config or the pod's service account; kured's
    --reboot-sentinel is /var/run/reboot-required unless told otherwise.
"""

from __future__ import annotations

import re

from zombiescope.core import Case, Finding, Plan, Step
from zombiescope.core.commands import in_sentence
from zombiescope.core.forms import NODE, NUMBER, Form
from zombiescope.core.timeline import Timeline
from zombiescope.core.witness import Witness
from zombiescope.places.own_python import own_python

CURES = ("zombie_cgroups", "soft_lockup")
RESTS_ON = {
    "kernel_log": Witness.LOGS,
    "container_info": Witness.NAMES,
    "pod_info": Witness.NAMES,
    "unit_active": Witness.SYSTEMD,
    "cgroups_known": Witness.KERNEL,
    "cgroup_dying_descendants": Witness.KERNEL,
}
LAST_RESORT = True
PATIENCE = 540.0  # seconds for a drain: a step may take ten minutes
COMMAND = own_python("zombiescope.kubernetes.drain_command")
MARKER = "/var/run/reboot-required"
KUBELETS = (
    *("kubelet.service", "snap.kubelet-eks.daemon.service"),
    *("k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"),
)
_NAME = re.compile(NODE)
FORMS = (
    Form(argv=(*COMMAND, "cordon", "{node}"), undo=(*COMMAND, "uncordon", "{node}"), varies={"node": NODE}),
    Form(argv=(*COMMAND, "drain", "{node}", "{seconds}"), varies={"node": NODE, "seconds": NUMBER}),
    Form(argv=("touch", MARKER), keeps=(MARKER,)),
)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    if finding.sign == "zombie_cgroups" and not any(link.cause == finding for link in case.links):
        return None
    if finding.sign == "soft_lockup" and case.causes_of(finding):
        return None  # its cause has a fix of its own
    return Plan(cures=finding, risk="disruptive", proof=(finding.sign,), steps=_steps(case.node, timeline))


def _steps(node: str, timeline: Timeline) -> tuple[Step, ...]:
    pods = any(it.value > 0 for it in timeline.latest("pod_info"))  # seen from a pod too, where units may not be
    if not pods and not timeline.looked("unit_active"):
        return (Step(says="move its work away and reboot; whether a kubelet runs here is not known"),)
    if not pods and not any(_runs(timeline, unit) for unit in KUBELETS):
        return (Step(says="move its work away, then reboot: systemctl reboot"),)
    if not _NAME.fullmatch(node):
        return (Step(says="kubectl drain it and reboot; the node's name is not known here"),)
    if _has_kured(timeline):
        return (_marked("ask kured to drain and reboot this node when its turn comes"),)
    return (
        Step(
            says="cordon the node: no new pods",
            argv=(*COMMAND, "cordon", node),
            undo=(*COMMAND, "uncordon", node),
        ),
        Step(
            says="drain the node, as fast as the disruption budgets of its pods allow",
            argv=(*COMMAND, "drain", node, f"{PATIENCE:g}"),
        ),
        _marked("mark the node for a reboot, for whatever reboots nodes here"),
        Step(says=f"if nothing does: systemctl reboot; afterwards: {in_sentence('kubectl', 'uncordon', node)}"),
    )


def _marked(says: str) -> Step:
    return Step(says=says, argv=("touch", MARKER), keeps=(MARKER,))


def _runs(timeline: Timeline, unit: str) -> bool:
    active = timeline.series("unit_active", f"unit:{unit}")
    return len(active) > 0 and active.latest.value > 0


def _has_kured(timeline: Timeline) -> bool:
    told = [*timeline.latest("container_info"), *timeline.latest("pod_info")]
    return any(it.value > 0 and "kured" in it.text for it in told)
