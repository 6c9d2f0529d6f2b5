"""A network card that resets itself drops every packet meanwhile, so a job on this node misses heartbeats and dies."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.ray_log import lines_of, nodes_here, ray_nodes

WITHIN = 90.0  # seconds: Ray asks a node five times, 3 s apart with 10 s to answer each, before it gives it up
_NETWORK = ("heartbeats", "gcs")  # the deaths that a lost packet can cause: no other is one


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    here, addresses = nodes_here(timeline), _addresses(timeline)
    for one in lines_of(timeline):
        if one.reading not in effect.evidence or one.death.how not in _NETWORK or not one.death.dead:
            continue
        address = addresses.get(one.node, "")
        if address.startswith("127.") or address == "::1" or (one.node and one.node not in here):
            continue  # what never left the machine did not pass the card, and another node has another card
        lost = "its heartbeats were missed" if one.death.how == "heartbeats" else "it lost Ray's control service"
        by = f", by way of {address}" if address else ""
        yield Ground(
            kind="mechanism",
            says=f"{lost} on this node{by}, and {cause.subject} had just been reset",
            evidence=(cause.evidence[0], one.reading),
        )
        return


def _addresses(timeline: Timeline) -> dict[str, str]:
    """Where each Ray node is reached: as its raylet was told, or as the cluster's head says."""
    found = {node.id: node.address for node in ray_nodes(timeline).values()}
    return found | {
        one.node: one.death.fields["address"] for one in lines_of(timeline) if "address" in one.death.fields
    }
