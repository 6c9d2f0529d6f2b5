"""`ethtool -S`: error counters of network drivers, under the same names for all of them.

Overhead: two ioctls a card and 0.14 ms in all for 20 counters, 1 µs for each more; names once a minute. The kernel
    takes the RTNL lock for each call, and some drivers query the device, so it is done rarely.
Kernel: see kernel/ethtool.py. ENA counts total_resets, suspected_poll_starvation and other reasons since its 2.10.0.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.kernel.ethtool import Ethtool
from zombiescope.kernel.mounted_node import NO_NETWORK
from zombiescope.kernel.text import count, lines

EVERY = 10.0
GIVES = (
    "nic_resets_total",
    "nic_poll_starvations_total",
    "nic_missed_tx_total",
    "nic_tx_watchdog_total",
    "nic_allowance_exceeded_total",
)
NAMES = 60.0  # seconds for which the names are cached: they change with the number of queues
NICS = "/sys/class/net"
# For each counter we give, patterns of driver names: the first pattern with a match is used, its matches are summed.
_WAYS = {
    GIVES[0]: (
        r"total_resets",  # ena
        r"reset_cnt",  # gve
        r"tx_recover",  # mlx5: a send queue was recovered
    ),
    GIVES[1]: (r"suspected_poll_starvation",),
    GIVES[2]: (r"queue_\d+_tx_missed_tx", r"missing_tx_cmpl"),
    GIVES[3]: (
        r"tx_timeout|tx_timeouts|tx_timeout_count|tx_timeo_cnt",  # ena, gve, others
        r"tx(?:_queue_)?\d+_(?:tx_)?timeouts",  # virtio_net
    ),
    GIVES[4]: (r"(?:bw_in|bw_out|pps|conntrack|linklocal)_allowance_exceeded",),
}
_EXPRESSIONS = {what: tuple(map(re.compile, ways)) for what, ways in _WAYS.items()}
Counters = Mapping[str, int]


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the socket and the names of the counters."""
    if "net" in host.apart:
        raise Unreadable("$ ethtool -S", NO_NETWORK)
    with Ethtool() as ethtool:
        named: dict[str, tuple[float, list[str]]] = {}

        def counters(nic: str) -> Counters:
            now = time.monotonic()
            since, names = named.get(nic, (0.0, []))
            if not names or now - since > NAMES or ethtool.count(nic) != len(names):
                names = ethtool.names(nic)
                named[nic] = now, names
            return dict(zip(names, ethtool.values(nic, len(names)), strict=True))

        yield lambda: _look(host, counters)


def read(host: Host) -> Iterator[Reading | Blind]:
    """One sample. A recorded root has the output of the command."""
    if host.live:
        with watch(host) as look:
            yield from look()
        return
    yield from _look(host, lambda nic: parse(host.run("ethtool", "-S", nic), shown_by("ethtool", "-S", nic)))


def _look(host: Host, counters: Callable[[str], Counters]) -> Iterator[Reading | Blind]:
    nics = [name for name in host.listing(NICS) if _has_device(host, name)]
    if not nics:
        raise Unreadable(NICS, "no network card: no interface has a device")
    seen: set[str] = set()
    unseen: list[Blind] = []
    for nic in nics:
        source, at = shown_by("ethtool", "-S", nic), host.now()
        try:
            found = counters(nic)
        except (Unreadable, Unparsable) as error:
            unseen += [Blind(what=what, source=error.source, why=error.why, subject=f"nic:{nic}") for what in GIVES]
            continue
        for what in GIVES:
            parts = chosen(what, found)
            if parts:
                seen.add(what)
                words = ", ".join(f"{name} {value}" for name, value in parts.items() if value)[:200]
                value = sum(parts.values())
                yield Reading(what=what, subject=f"nic:{nic}", value=value, at=at, source=source, text=words)
            else:
                unseen.append(
                    Blind(what=what, source=source, why="its driver does not count this", subject=f"nic:{nic}")
                )
    for blind in unseen:
        # What no card counts is blind for the whole node.
        subject = blind.subject if blind.what in seen else ""
        yield Blind(what=blind.what, source=blind.source, why=blind.why, subject=subject)


def chosen(what: str, counters: Counters) -> dict[str, int]:
    """The card's counters that make up one of those we give; empty if it has none."""
    for way in _EXPRESSIONS[what]:
        parts = {name: value for name, value in counters.items() if way.fullmatch(name)}
        if parts:
            return parts
    return {}


def _has_device(host: Host, nic: str) -> bool:
    """Whether a device is behind it: cards have one; bridges, tunnels and veth pairs do not."""
    try:
        return bool(host.link(f"{NICS}/{nic}/device"))
    except Unreadable:
        return False


# NIC statistics:
#      total_resets: 0
#      queue_0_tx_cnt: 3925390
def parse(text: str, source: str = "$ ethtool -S NIC") -> dict[str, int]:
    """The output of the command."""
    found: dict[str, int] = {}
    head, *rows = lines(text) or [""]
    if head.strip() != "NIC statistics:":
        raise Unparsable(source, 1, head)
    for number, row in enumerate(rows, 2):
        name, _, value = row.strip().rpartition(":")
        try:
            found[name] = count(value.strip())
        except ValueError:
            raise Unparsable(source, number, row) from None
    return found
