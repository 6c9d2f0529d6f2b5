"""How long the softirqs of a core waited between raise and run, and how long they ran, as far as eBPF timed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core import Finding, Ground, Reading
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline
from zombiescope.derived.histograms import LONG_SAYS, Times, times

WAIT, RUN = "softirq_wait_seconds", "softirq_run_seconds"


class Timed(NamedTuple):
    """One kind of softirq on one core."""

    kind: str
    cpu: str
    times: Times

    @property
    def longest(self) -> Reading:
        return self.times.longest

    @property
    def share(self) -> float:
        return self.times.total / self.times.seconds if self.times.seconds else 0.0

    @property
    def waited(self) -> str:
        """NET_RX waited up to 812 ms between raise and run, 41 times over 16 ms in 10.0 s."""
        worst = self.longest.value * 1e3
        return (
            f"{self.kind} on {self.cpu.replace(':', ' ')} waited up to {worst:.0f} ms between raise and run, "
            f"{self.times.long:,} times over {LONG_SAYS} in {self.times.seconds:.1f} s"
        )

    @property
    def ran(self) -> str:
        """NET_RX ran 0.61 s of each second, up to 12.3 ms at once."""
        return f"{self.kind} ran {self.share:.2f} s of each second, up to {self.longest.value * 1e3:.1f} ms at once"


def timed(timeline: Timeline, what: str, cpu: str, span: Span) -> list[Timed]:
    """The kinds of softirq that were timed on a core in a span, that with the longest first."""
    number = cpu.removeprefix("cpu:")
    named = [it for it in timeline.subjects(what, "softirq") if it.rpartition("/")[2] == number]
    found = [
        Timed(subject.removeprefix("softirq:").rpartition("/")[0], cpu, over)
        for subject in named
        if (over := times(timeline, what, subject, span)) is not None
    ]
    return sorted(found, key=lambda it: it.longest.value, reverse=True)


def long_waits(timeline: Timeline, cpu: str, span: Span) -> list[Timed]:
    """Those kinds of which some waited for LONG_US or more."""
    return [it for it in timed(timeline, WAIT, cpu, span) if it.times.long]


def how_known(timeline: Timeline, cpu: str, span: Span) -> tuple[str, tuple[Reading, ...]]:
    """What the timing of softirqs says of a core that starves them, and the evidence: at least why it was not timed.

    No words where nothing was timed (the programs rested, other cores were worse, or they could not be loaded), nor
    where none waited long after it was raised: while interrupts are off none is raised.
    """
    if not timeline.looked(WAIT):
        looks = timeline.looks(WAIT)
        return "", (looks.latest,) if len(looks) else ()
    found = timed(timeline, WAIT, cpu, span)
    if not found:
        return "", ()
    if waits := [it for it in found if it.times.long]:
        return f"timed by eBPF: {waits[0].waited}", (waits[0].longest,)
    return "", (found[0].longest,)


def most_run(timeline: Timeline, cpu: str, span: Span) -> Timed | None:
    """The kind of softirq that ran most on a core."""
    return max(timed(timeline, RUN, cpu, span), key=lambda it: it.share, default=None)


def seen_waiting(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """That softirqs of a core waited while both went on, as a mechanism."""
    both = Span(max(cause.span.start, effect.span.start), min(cause.span.end, effect.span.end))
    for it in long_waits(timeline, effect.subject, both)[:1] if both.seconds > 0 else ():
        yield Ground(kind="mechanism", says=f"timed by eBPF: {it.waited}", evidence=(it.longest,))
