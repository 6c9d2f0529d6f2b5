"""Which network card carries the traffic of an address."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from zombiescope.core.model import Reading
from zombiescope.core.timeline import Timeline

CARDS, ROUTES = "nic_tx_timeouts_total", "nic_route"


def carrier(timeline: Timeline, address: str) -> tuple[str, Reading] | None:
    """The card ("nic:eth0") and the reading that shows it; None where that is not known.

    The node's only card carries everything. Of several, the one on whose network the address is: an address behind a
    bridge, a tunnel or a pod's own link may leave by any of them.
    """
    cards = timeline.subjects(CARDS, "nic")
    if len(cards) == 1:
        return cards[0], timeline.series(CARDS, cards[0]).latest
    try:
        wanted = ip_address(address)
        routes = {ip_network(it.subject.removeprefix("route:")): it for it in timeline.latest(ROUTES)}
    except ValueError:
        return None
    reaching = [network for network in routes if network.version == wanted.version and wanted in network]
    nearest = max(reaching, key=lambda network: network.prefixlen, default=None)
    if nearest is None or not nearest.prefixlen:
        return None
    card = f"nic:{routes[nearest].text}"
    return (card, routes[nearest]) if card in cards or not cards else None
