"""A core handles the packets it receives in softirqs, so when one core receives nearly all it is full of softirqs."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: packets are handled as they come


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    packets = next((it for it in cause.evidence if it.what == "packets_per_second"), None)
    if cause.subject == effect.subject and packets is not None and "NET_RX" in effect.says:
        yield Ground(
            kind="place",
            says=f"the core gets {packets.value:,.0f} packets a second and runs their softirqs (NET_RX)",
            evidence=(packets, *effect.evidence[:2]),
        )
