"""A program stands still at a print, because nobody reads the pipe that it writes to.

Why it hurts: a service whose log driver, sidecar or parent does not read its output hangs in the middle of its work,
    with its locks held and its connections open. It uses no CPU, is not blocked by a disk, and answers nobody.
False alarms: backpressure is what pipes are for: a writer that is slowed down by its reader still runs now and then,
    and only one that never ran for that long counts. Who writes to a terminal's pager waits for a person, and the
    parts of a pipeline (one process group) for the slowest of them: both are left out, and so is a pipe of which
    nobody was seen to have the other end.
References: fs/pipe.c; pipe(7), pipe capacity.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import Sleeper, covering, sleepers

WRITER, READER, COUNT = "pipe_writer_seconds", "pipe_reader", "pipe_writers"
# Scale: seconds of one process: the same on any node.
NEEDS = (COUNT,)
LONG = 8.0  # seconds without a turn: a reader that is busy takes its 64 KB within one
NAMED = 4  # writers named in a sentence


def find(timeline: Timeline) -> Iterator[Finding]:
    readers: dict[str, list[Sleeper]] = {}
    for writer in sleepers(timeline, "pipe", least=LONG, what=WRITER):
        if len(reads := timeline.series(READER, writer.subject)):
            readers.setdefault(f"process:{reads.latest.text}", []).append(writer)
    for reader, writers in readers.items():
        yield _finding(timeline, reader, writers)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    now = timeline.latest(COUNT)
    many = now[0].value if now else 0
    return f"{many:,.0f} process{'es wait' if many != 1 else ' waits'} for a pipe to be read", tuple(now)


def _finding(timeline: Timeline, reader: str, writers: list[Sleeper]) -> Finding:
    names = ", ".join(harmless(it.subject.partition(":")[2]) for it in writers[:NAMED])
    known = [it.latest for one in writers[:NAMED] if len(it := timeline.series(READER, one.subject))]
    longest = lasting(writers[0].span.seconds)
    return Finding(
        subject=reader,
        span=covering(writers),
        says=f"keeps {names} waiting to print for up to {longest}: it has the pipe's other end and does not read it",
        evidence=(*(it.reading for it in writers[:NAMED]), *known),
        culprit=reader,
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in writers)),
    )
