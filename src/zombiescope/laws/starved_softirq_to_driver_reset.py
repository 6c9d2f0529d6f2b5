"""A driver resets its card when completions are not fetched in time, and only the queue's core can fetch them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Finding, Ground, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import Timed, long_waits
from zombiescope.knowledge.kernel_messages import recognise

WITHIN = 10.0  # seconds: ENA gives up after 5, others after 5 to 10, and the log comes a little later
LATE = 1.0  # seconds since the queue was last polled: less, and the card itself was slow
# Drivers end the name of an interrupt with the queue: eth0-Tx-Rx-5, virtio2-input.0, mlx5_comp5@pci:0000:00:05.0.
_QUEUE = re.compile(r"(\d+)(?:@.*)?$")


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    core, nic = int(cause.subject.removeprefix("cpu:")), effect.subject.removeprefix("nic:")
    for reading in effect.evidence:
        message = recognise(reading.text) if reading.what == "kernel_log" else None
        if message is None:
            continue
        fields = message.fields
        if "cpu" in fields:
            if fields["cpu"] != str(core):
                continue
            yield Ground(kind="place", says=f"the driver names cpu {core}", evidence=(reading,))
        else:
            served = _serving(timeline, nic, fields.get("queue", ""), core)
            if served is None:
                continue
            says = f"cpu {core} serves queue {fields['queue']} of {nic} ({served.text})"
            yield Ground(kind="place", says=says, evidence=(reading, served))
        # What the driver logs counts only where it is about this core.
        since = float(fields.get("since_napi_seconds", 0))
        if message.kind == "nic_poll_starved" or (since >= LATE and fields.get("napi_scheduled") == "1"):
            says = "the driver logged that NAPI was due and did not run" + (f" for {since:.1f} s" if since else "")
            yield Ground(kind="mechanism", says=says, evidence=(reading,))
        for waits in _packets_waited(timeline, cause):
            yield Ground(kind="mechanism", says=f"timed by eBPF: {waits.waited}", evidence=(waits.longest,))


def _packets_waited(timeline: Timeline, cause: Finding) -> list[Timed]:
    """The softirqs of packets, if one of them waited for so long that a driver notices."""
    waits = long_waits(timeline, cause.subject, cause.span)
    return [it for it in waits if it.kind in ("NET_RX", "NET_TX") and it.longest.value >= LATE][:1]


def _serving(timeline: Timeline, nic: str, queue: str, core: int) -> Reading | None:
    """The interrupt of that queue, if this core serves it."""
    for irq in timeline.latest("nic_irq_cpu"):
        number = _QUEUE.search(irq.text.partition(" (")[0].partition(",")[0])
        if nic in irq.text and number is not None and number[1] == queue and irq.value == core:
            return irq
    return None
