"""Processes are blocked in the kernel (state D) and have not run for many seconds.

Why it hurts: what they wait for does not come: an NFS server or disk that is gone, a lock whose owner waits itself,
    memory that cannot be freed. Most cannot be killed, they hold locks that others queue for, and the load average
    rises while no core is busy.
False alarms: ordinary disk work blocks as well, but runs again between two samples and is not counted. A driver's
    kernel thread that sleeps uninterruptibly forever; a program that waits for its vfork child.
References: Documentation/filesystems/proc.rst 1.2; the kernel's own complaint (khungtaskd) comes after 120 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core import Blind, Finding, Reading, Span, harmless, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import LOG, lines_of
from zombiescope.derived.pressure import pressure
from zombiescope.derived.threads import unread_threads

_SECONDS = "process_blocked_seconds"
SYMPTOM = True
# Scale: seconds of one task, and tasks that wait for the same thing: neither grows with the node.
NEEDS = ((_SECONDS, LOG),)
LONG = 8.0  # seconds for one process: no healthy disk's queue is that deep; the kernel itself waits for 120
PILE = 3  # blocked together: they wait for something shared
PILED = 4.0  # seconds for a pile: from one sample to the next
SHOWN = 8  # readings in a finding


class _Stuck(NamedTuple):
    """A process that was blocked without running, seen in a sample or in the kernel's log."""

    subject: str
    span: Span
    where: str
    reading: Reading


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    stuck = sorted(_stuck(timeline), key=lambda it: -it.span.seconds)
    pile = [it for it in stuck if it.span.seconds >= PILED]
    if len(pile) >= PILE:
        yield _finding(timeline, "node", pile)
        return
    for it in stuck:
        if it.span.seconds >= LONG:
            yield _finding(timeline, it.subject, [it])
    yield from unread_threads(timeline)
    # The kernel's count includes threads, which samples of processes miss, and goes on when its messages have stopped.
    hung = timeline.series("hung_tasks_total")
    if not stuck and len(hung) and hung.latest.value > hung.first.value:
        says = f"has {hung.latest.value - hung.first.value:,.0f} more hung tasks by the kernel's count"
        more = Part(figure="waited", who="node", amount=hung.latest.value - hung.first.value, span=hung.span)
        yield Finding(
            subject="node", span=hung.span, says=says, evidence=(hung.first, hung.latest), harm=Harm(parts=(more,))
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How many were blocked at the last sample, and for how long the longest of them."""
    now = timeline.latest("blocked_processes")
    longest = max((it.span.seconds for it in _stuck(timeline)), default=0.0)
    count = f"{now[0].value:,.0f} processes blocked at the last sample, " if now else ""
    looked = tuple(looks.latest for what in NEEDS[0] if len(looks := timeline.looks(what)))
    return f"{count}none blocked for longer than {lasting(longest)}", (*now, *looked)


def _stuck(timeline: Timeline) -> Iterator[_Stuck]:
    """Each process once, with its longest known wait."""
    found: dict[str, _Stuck] = {}
    for subject in timeline.subjects(_SECONDS):
        series = timeline.series(_SECONDS, subject)
        longest = series.reading(int(series.values.argmax()))
        span = Span(longest.at - longest.value, longest.at)
        found[subject] = _Stuck(subject, span, longest.text, longest)
    for line in lines_of(timeline, "hung_task"):
        fields, at = line.message.fields, line.reading.at
        subject = f"process:{fields['process']}[{fields['pid']}]"
        seconds = float(fields["seconds"][:9])
        if subject not in found or found[subject].span.seconds < seconds:
            found[subject] = _Stuck(subject, Span(at - seconds, at), "", line.reading)
    yield from found.values()


def _finding(timeline: Timeline, subject: str, stuck: list[_Stuck]) -> Finding:
    places = sorted({harmless(it.where) for it in stuck if it.where})
    where, longest = f" in {', '.join(places[:3])}" if places else "", lasting(stuck[0].span.seconds)
    if subject == "node":
        names = ", ".join(harmless(it.subject.partition(":")[2]) for it in stuck[:5])
        says = f"has {len(stuck)} processes blocked{where} that have not run for up to {longest}: {names}"
    else:
        says = f"is blocked{where} and has not run for {longest}"
    span = Span(min(it.span.start for it in stuck), max(it.span.end for it in stuck))
    io = pressure(timeline, "io_waiting", span)
    return Finding(
        subject=subject,
        span=span,
        says=says + "".join(f"; tasks waited for I/O {percent(it.value)} of that time" for it in io),
        evidence=(*(it.reading for it in stuck[:SHOWN]), *timeline.latest("blocked_processes"), *io),
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in stuck)),
    )
