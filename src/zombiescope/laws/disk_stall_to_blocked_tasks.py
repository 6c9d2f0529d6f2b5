"""A task that waits for a request to a disk sleeps uninterruptibly until the disk answers."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: blocked tasks are sampled every five
MEMORY = 2.0  # times the waiting for memory: with less, reclaim explains it better
# Where a task sleeps while it waits for a disk: /proc/PID/wchan.
_WAITS = (
    *("io_schedule", "blk_", "bio_", "submit_bio_wait", "rq_qos_wait", "wait_on_page", "folio_wait", "wait_on_buffer"),
    *("jbd2_log_wait_commit", "xfs_log", "xlog_", "balance_dirty_pages", "wait_transaction_locked", "ext4_"),
)


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waits = [it for it in effect.evidence if any(name in it.text for name in _WAITS)]
    if waits:
        says = f"{waits[0].subject.removeprefix('process:')} waits in {waits[0].text}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
    memory, io = (timeline.rate(f"pressure_{kind}_waiting_seconds_total") for kind in ("memory", "io"))
    if not waits or not len(memory) or not len(io):
        return
    stalled, disk = (rate.between(effect.span).mean() for rate in (memory, io))
    if disk > 0 and disk >= MEMORY * stalled:
        yield Ground(
            kind="dose",
            says=f"tasks waited for I/O {percent(disk)} of that time, and for memory {percent(stalled)}",
            evidence=(io.between(effect.span).latest, memory.between(effect.span).latest),
        )
