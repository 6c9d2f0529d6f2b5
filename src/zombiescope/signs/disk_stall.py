"""A disk takes far too long for each request, or a cgroup is held at an I/O limit of its own, and tasks wait for it.

Why it hurts: whatever reads or writes there stands still: a daemon that logs, kubelet that looks for its files, a
    page that has to come back. Cloud disks have a ceiling in requests or bytes a second, and some have credits that
    run out; a queue then forms that shows in no CPU or memory figure. An NVMe command that is lost holds its caller
    for 30 s.
False alarms: how busy a disk is says nothing (an SSD that is 100 % busy takes more), and a stream of large writes
    fills the queue on purpose. So each request must take long, and tasks must have waited for I/O at the same
    time (PSI).
References: Documentation/admin-guide/iostats.rst; Documentation/accounting/psi.rst; drivers/nvme/host/pci.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, amount, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.episodes import episodes
from zombiescope.derived.kernel_log import Line, lines_of, logged
from zombiescope.derived.writers import writer

_REQUESTS, _WAIT, _QUEUE = "disk_requests_total", "disk_wait_seconds_total", "disk_queue_seconds_total"
_BYTES, _PRESSURE = "disk_bytes_total", "pressure_io_waiting_seconds_total"
_LIMIT, _DONE = "cgroup_io_limit", "cgroup_io_total"
# Scale: seconds of one request and shares of a limit or of time: the same on any node.
NEEDS = (_REQUESTS, _PRESSURE)
LONG = 0.2  # seconds a request: twice what one takes in a full queue of a streaming disk
TIMES = 10.0  # times what is usual on that disk, where the recording shows what is usual
LEAST = 0.05  # seconds a request even so: a cloud disk takes 5 ms, a hard disk 20
USUAL = 20  # samples that show what is usual: fewer may all be from the bad time
STALLED = 0.2  # of the time that some task waited for I/O: less is a program that waits for its own writes now and then
AT_LIMIT = 0.9  # of a cgroup's limit: the kernel lets through a little less than it allows
LASTS = 4.0  # seconds: two samples; a flush of a cache takes less
BRIDGE = 3.0  # seconds: one better sample does not split a stall in two
FLAT = 0.05  # of the mean, as standard deviation: traffic that people make varies more, so this is a ceiling
TIMEOUT = 30.0  # seconds that an NVMe command is waited for (nvme_core.io_timeout)
SHOWN = 4  # lines of the log, as evidence


@dataclass(frozen=True, slots=True)
class _Limit:
    """A cgroup's own limit on one disk, and what it did there."""

    cgroup: str
    disk: str
    kind: str
    most: Reading
    rate: Series

    @property
    def words(self) -> str:
        way = "reading" if self.kind.startswith("r") else "writing"
        much = f"{self.most.value:,.0f} requests" if self.kind.endswith("iops") else amount(self.most.value)
        return f"{way} {much} a second"


def find(timeline: Timeline) -> Iterator[Finding]:
    pressure = timeline.rate(_PRESSURE)
    timeouts: dict[str, list[Line]] = {}
    for line in lines_of(timeline, "disk_timeout"):
        timeouts.setdefault(f"disk:{line.message.fields['device']}", []).append(line)
    for disk in timeline.subjects(_REQUESTS, "disk"):
        for slow in _each(timeline, disk).runs(above=_threshold(timeline, disk), lasting=LASTS, bridging=BRIDGE):
            stalled = pressure.between(slow.span).mean() if len(pressure) else 0.0
            if stalled >= STALLED:
                controllers = [name for name in timeouts if disk.startswith(name)]
                lines = [line for name in controllers for line in timeouts.pop(name)]
                yield _slow(timeline, disk, slow, stalled, lines)
    for limit in _limits(timeline):
        for held in limit.rate.runs(above=AT_LIMIT * limit.most.value, lasting=LASTS, bridging=BRIDGE):
            stalled = pressure.between(held.span).mean() if len(pressure) else 0.0
            if stalled >= STALLED:
                yield _held(timeline, limit, held, stalled)
    for disk, its in timeouts.items():
        for episode in episodes(its, lambda line: line.reading.at, apart=60.0):
            yield _timed_out(disk, episode)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    worst = [
        (float(np.nanmax(each.values)), each) for it in timeline.subjects(_REQUESTS) if len(each := _each(timeline, it))
    ]
    if not worst:
        return "no disk was used", (timeline.looks(_REQUESTS).latest,)
    seconds, each = max(worst, key=lambda it: it[0])
    name = each.subject.removeprefix("disk:")
    return f"slowest: {name}, at most {seconds * 1e3:,.1f} ms a request", (each.figure("seconds_a_request", seconds),)


def _each(timeline: Timeline, disk: str) -> Series:
    """Seconds that a request took, in each sample; one that none was completed in while some waited took all of it."""
    requests, wait, queue = (timeline.rate(what, disk) for what in (_REQUESTS, _WAIT, _QUEUE))
    if not len(requests) or len(wait) != len(requests) or len(queue) != len(requests):
        return replace(requests, at=requests.at[:0], values=requests.values[:0])
    length = np.diff(np.append(requests.at, requests.until))
    took = np.where(requests.values > 0, wait.values / np.maximum(requests.values, 1e-9), 0.0)
    stuck = (requests.values <= 0) & (queue.values >= 0.9)  # in flight all the time, and nothing came back
    return replace(requests, values=np.nan_to_num(np.where(stuck, np.maximum(length, LONG), took)))


def _threshold(timeline: Timeline, disk: str) -> float:
    used = [it for it in _each(timeline, disk).values.tolist() if it > 0]
    return max(LEAST, min(LONG, TIMES * float(np.percentile(used, 25)))) if len(used) >= USUAL else LONG


def _slow(timeline: Timeline, disk: str, slow: Series, stalled: float, lines: list[Line]) -> Finding:
    queue, requests, size = (timeline.rate(what, disk).between(slow.span) for what in (_QUEUE, _REQUESTS, _BYTES))
    at_most = _ceiling(requests, size) if queue.mean() >= 1 else ""
    most = writer(timeline, slow.span)
    return Finding(
        subject=disk,
        span=slow.span,
        says=(
            f"took {slow.mean() * 1e3:,.0f} ms for a request for {lasting(slow.span.seconds)}, with "
            f"{queue.mean():,.1f} waiting{at_most}; tasks waited for I/O {percent(stalled)} of that time"
            f"{logged(lines, 'timeouts')}{most.words if most else ''}"
        ),
        evidence=(
            slow.figure("seconds_a_request"),
            queue.figure("disk_queue_requests"),
            _waited(timeline, slow.span),
            *(line.reading for line in lines[:SHOWN]),
            *(most.evidence if most else ()),
        ),
        culprit=most.subject if most else "",
        harm=_harm(stalled, slow.span),
    )


def _ceiling(requests: Series, size: Series) -> str:
    """That it does as much as it may and no more: a limit of the disk, not its speed."""
    for rate, unit in ((requests, "requests"), (size, "bytes")):
        if len(rate) >= 4 and rate.mean() > 0 and float(rate.values.std()) <= FLAT * rate.mean():
            much = f"{rate.mean():,.0f} requests" if unit == "requests" else amount(rate.mean())
            return f", at a ceiling of {much} a second"
    return ""


def _limits(timeline: Timeline) -> Iterator[_Limit]:
    for subject in timeline.subjects(_LIMIT, "iolimit"):
        most, rate = timeline.series(_LIMIT, subject).latest, timeline.rate(_DONE, subject)
        path, disk, kind = [*most.text.rsplit(" ", 2), "", ""][:3]
        if len(rate):
            yield _Limit(f"cgroup:{path}", disk, kind, most, rate)


def _held(timeline: Timeline, limit: _Limit, held: Series, stalled: float) -> Finding:
    return Finding(
        subject=limit.cgroup,
        span=held.span,
        says=(
            f"was held at its own I/O limit on {limit.disk} ({limit.words}) for {lasting(held.span.seconds)}; "
            f"tasks waited for I/O {percent(stalled)} of that time; it is {whose(timeline, '', limit.cgroup)}"
        ),
        evidence=(limit.most, held.figure("cgroup_io_per_second"), _waited(timeline, held.span)),
        culprit=limit.cgroup,
        harm=_harm(stalled, held.span),
    )


def _timed_out(disk: str, lines: list[Line]) -> Finding:
    resets = sum(line.message.fields.get("then") != "aborting" for line in lines)
    span = Span(lines[0].reading.at - TIMEOUT, lines[-1].reading.at)
    parts = [Part(figure="waited", who=disk, amount=1.0, span=span)]
    parts += [Part(figure="broken", kind="resets", who=disk, amount=resets, span=span)] if resets else []
    return Finding(
        subject=disk,
        span=span,
        says=f"did not answer {len(lines):,} commands in time; {resets:,} led to a reset",
        evidence=tuple(line.reading for line in lines[:SHOWN]),
        harm=Harm(parts=tuple(parts)),
    )


def _waited(timeline: Timeline, span: Span) -> Reading:
    pressure = timeline.rate(_PRESSURE).between(span)
    return pressure.figure("pressure_io_waiting_ratio")


def _harm(stalled: float, span: Span) -> Harm:
    """The time in which at least one task waited for I/O: one at a time, as the kernel does not say how many."""
    return Harm(parts=(Part(figure="waited", who="node", amount=stalled, span=span),))
