"""A file system is frozen (fsfreeze) and not thawed: every program that writes there hangs.

Why it hurts: a backup or a snapshot freezes a file system for moments. If its agent dies before it thaws it, or hangs
    itself because it logs to that file system, all writers sleep unkillably, and so does a login.
False alarms: a snapshot freezes for seconds; only writers that slept for longer count. A read-only bind mount
    refuses, it does not wait.
References: fs/super.c, freeze_super; fsfreeze(8); include/linux/fs.h, sb_start_write.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Finding, Reading, harmless, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import SECONDS, covering, sleepers, unknown

# Scale: seconds of one task: the same on any node.
NEEDS = (SECONDS,)
LONG = 8.0  # seconds: a snapshot of a large disk takes less
PILE = 1  # writers: one that cannot write for so long is enough
NAMED = 4  # tasks named in a sentence
# sb_start_write sleeps in these until the file system is thawed: /proc/PID/wchan. A percpu_rwsem of another use (cgroup
# threads, CPU hotplug) is held for moments only.
_WAITS = ("percpu_rwsem_wait", "__percpu_down_read", "sb_start_write", "__sb_start_write", "sb_wait_write")


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    yield from unknown(timeline, least=LONG)
    blocked = sleepers(timeline, *_WAITS, least=LONG)
    if len(blocked) < PILE:
        return
    names = ", ".join(harmless(it.subject.partition(":")[2]) for it in blocked[:NAMED])
    many = f"{len(blocked)} task{'s' if len(blocked) != 1 else ''}"
    yield Finding(
        subject="node",
        span=covering(blocked),
        says=(
            f"has a frozen file system: {many} waited to write for up to {lasting(blocked[0].span.seconds)} in "
            f"{harmless(blocked[0].where)}: {names}; their open files show which one"
        ),
        evidence=tuple(it.reading for it in blocked[:NAMED]),
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in blocked)),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return "no task waits for a file system to be thawed", (timeline.looks(SECONDS).latest,)
