"""A Ray node that is throttled by its CPU quota does not answer health checks in time, so it is marked dead."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.ray_log import lines_of, ray_nodes

WITHIN = 60.0  # seconds: five health checks and their time to answer


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    nodes = ray_nodes(timeline)
    throttled = cause.subject.removeprefix("cgroup:")
    for one in lines_of(timeline):
        node = nodes.get(one.node)
        if one.reading not in effect.evidence or one.death.how != "heartbeats" or not one.death.dead or node is None:
            continue
        if throttled != "/" and (node.cgroup == throttled or node.cgroup.startswith(f"{throttled}/")):
            yield Ground(
                kind="place",
                says=f"the raylet that did not answer runs in {throttled}, which was throttled",
                evidence=(node.reading, cause.evidence[0], one.reading),
            )
            return
