"""A network card drops every packet while it is reset, so a job on this node misses heartbeats and dies."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.derived.carriers import CARDS, ROUTES, carrier
from zombiescope.derived.ray_log import Line, lines_of, nodes_here, ray_nodes

WITHIN = 90.0  # seconds: Ray asks a node five times, 3 s apart with 10 s to answer each, before it marks it dead
_NETWORK = ("heartbeats", "gcs")  # the only deaths that a lost packet can cause


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    for one, address in _lost(effect, timeline):
        shown = _carries(cause.subject, address, timeline)
        if shown is None:
            continue
        lost = "it missed heartbeats" if one.death.how == "heartbeats" else "it lost Ray's control service"
        by = f" ({address})" if address else ""
        nic = cause.subject.removeprefix("nic:")
        yield Ground(
            kind="mechanism",
            says=f"{lost} on this node{by} just after its card {nic} was reset",
            evidence=(cause.evidence[0], one.reading, *shown),
        )
        return


def lacks(effect: Finding, timeline: Timeline) -> str:
    """What could not be seen: which card carries the job's traffic."""
    for _, address in _lost(effect, timeline):
        if _routes_known(timeline) and carrier(timeline, address) is None:
            return f"which card carries the traffic of {address or 'this job'} is not known"
    return ""


def _carries(nic: str, address: str, timeline: Timeline) -> tuple[Reading, ...] | None:
    """What shows that the card carries the traffic of an address; None where it does not, or where that is not known.

    Recordings of 0.1 do not say it of any card: there it may be this one.
    """
    if not _routes_known(timeline):
        return ()
    carried = carrier(timeline, address)
    return (carried[1],) if carried is not None and carried[0] == nic else None


def _routes_known(timeline: Timeline) -> bool:
    return bool(len(timeline.looks(ROUTES)) or timeline.subjects(CARDS))


def _lost(effect: Finding, timeline: Timeline) -> Iterator[tuple[Line, str]]:
    """Deaths on this node that a lost packet can cause, each with the node's address if that is known."""
    here, addresses = nodes_here(timeline), _addresses(timeline)
    for one in lines_of(timeline):
        if one.reading not in effect.evidence or one.death.how not in _NETWORK or not one.death.dead:
            continue
        address = addresses.get(one.node, "")
        if address.startswith("127.") or address == "::1" or (one.node and one.node not in here):
            continue  # loopback traffic does not pass the card, and another node has another card
        yield one, address


def _addresses(timeline: Timeline) -> dict[str, str]:
    """Each Ray node's address: as its raylet has it, or as the cluster's head logs it."""
    found = {node.id: node.address for node in ray_nodes(timeline).values()}
    return found | {
        one.node: one.death.fields["address"] for one in lines_of(timeline) if "address" in one.death.fields
    }
