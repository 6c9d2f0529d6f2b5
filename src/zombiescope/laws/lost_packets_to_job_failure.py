"""A job whose heartbeats are dropped on this node is marked dead."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.carriers import carrier
from zombiescope.derived.ray_log import lines_of, ray_nodes

WITHIN = 90.0  # seconds: Ray asks a node five times, 3 s apart with 10 s to answer each, before it marks it dead
_NETWORK = ("heartbeats", "gcs")  # the only deaths that a lost packet can cause


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    died = [one for one in lines_of(timeline) if one.reading in effect.evidence and one.death.how in _NETWORK]
    if not died:
        return
    for node in ray_nodes(timeline).values():
        inside = cause.culprit.removeprefix("cgroup:")
        if inside and f"{node.cgroup}/".startswith(f"{inside.rstrip('/')}/"):
            says = "packets were lost in the network namespace that Ray runs in, and heartbeats were missed"
            yield Ground(kind="place", says=says, evidence=(cause.evidence[-1], node.reading, died[0].reading))
            return
        carried = carrier(timeline, node.address)
        if carried is not None and carried[0] == cause.subject:
            says = f"{cause.subject.removeprefix('nic:')} carries the traffic of {node.address}"
            yield Ground(kind="place", says=says, evidence=(cause.evidence[-1], carried[1], died[0].reading))
            return
