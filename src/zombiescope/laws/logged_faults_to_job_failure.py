"""A fault of the hardware or the kernel ends the process that met it, so a job dies with that process or that link."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.carriers import carrier
from zombiescope.derived.ray_log import lines_of, ray_nodes
from zombiescope.knowledge.kernel_messages import recognise

WITHIN = 120.0  # seconds: a worker's death is logged at once; a lost link is noticed after some missed heartbeats
_NETWORK = ("heartbeats", "gcs")  # the only deaths that a link can cause


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    died = [one for one in lines_of(timeline) if one.reading in effect.evidence and one.death.dead]
    for reading in cause.evidence:
        fields = message.fields if (message := recognise(reading.text)) is not None else {}
        worker = next((one for one in died if one.death.fields.get("pid") == fields.get("pid", "none")), None)
        if worker is not None:
            says = f"the process of the fault, pid {fields['pid']}, is the worker that died"
            yield Ground(kind="mechanism", says=says, evidence=(reading, worker.reading))
            return
    lost = [one for one in died if one.death.how in _NETWORK]
    if not lost or not cause.subject.startswith("nic:") or "link" not in cause.says:
        return
    for node in ray_nodes(timeline).values():
        carried = carrier(timeline, node.address)
        if carried is not None and carried[0] == cause.subject:
            says = f"the link carries the traffic of {node.address}, and heartbeats were lost"
            yield Ground(kind="mechanism", says=says, evidence=(cause.evidence[0], lost[0].reading, carried[1]))
            return
