"""/proc/net/route: which interface carries traffic for which addresses (IPv4, the main table).

Overhead: one read, 1 µs a route. At most `MOST` routes are reported.
Kernel: fib_route_seq_show() in net/ipv4/fib_trie.c. Addresses are hexadecimal, in the byte order of the machine; IPv6
    and tables chosen by rules (`ip rule`) are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core import Blind, Host, Reading, Unparsable
from zombiescope.kernel.text import count, lines

EVERY = 60.0
GIVES = ("nic_route",)
SOURCE = "/proc/net/route"
MOST = 1_000  # routes: a node has one for each pod at most, 250; one with a full table of the internet is a router
_UP = 0x1


@dataclass(frozen=True, slots=True)
class Route:
    to: str  # 10.0.0.0/24
    interface: str
    metric: int


def read(host: Host) -> Iterator[Reading | Blind]:
    at, routes = host.now(), parse(host.read(SOURCE))
    if len(routes) > MOST:
        yield Blind(what=GIVES[0], source=SOURCE, why=f"{len(routes):,} routes are more than {MOST:,}")
        return
    best: dict[str, Route] = {}
    for it in sorted(routes, key=lambda it: it.metric):
        best.setdefault(it.to, it)
    for it in best.values():
        yield Reading(what=GIVES[0], subject=f"route:{it.to}", value=it.metric, at=at, source=SOURCE, text=it.interface)


# Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
# eth0	0000000A	00000000	0001	0	0	0	00FFFFFF	0	0	0
def parse(text: str) -> list[Route]:
    found = []
    head, *rows = lines(text) or [""]
    if not head.startswith("Iface\tDestination"):
        raise Unparsable(SOURCE, 1, head)
    for number, row in enumerate(rows, 2):
        fields = row.split()
        try:
            interface, (to, flags, mask) = fields[0], (count(fields[it], 16) for it in (1, 3, 7))
            metric = count(fields[6])
            address = ".".join(map(str, to.to_bytes(4, "little")))  # to import ipaddress takes 0.25 MB
        except (ValueError, IndexError, OverflowError):
            raise Unparsable(SOURCE, number, row) from None
        if flags & _UP:
            found.append(Route(f"{address}/{mask.bit_count()}", interface, metric))
    return found
