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
from zombiescope.derived.blocked import SECONDS, Sleeper, covering, sleepers, unknown

# Scale: seconds of one task: the same on any node.
NEEDS = (SECONDS,)
LONG = 8.0  # seconds: a snapshot of a large disk takes less
PILE = 1  # writers: one that cannot write for so long is enough
NAMED = 4  # tasks named in a sentence
# sb_start_write sleeps in these until the file system is thawed: /proc/PID/wchan. A percpu_rwsem of another use (cgroup
# threads, CPU hotplug) is held for moments only.
_WRITES, _DEVICE = "process_blocked_on_mount", "process_blocked_on_device"
_WAITS = ("percpu_rwsem_wait", "__percpu_down_read", "sb_start_write", "__sb_start_write", "sb_wait_write")


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    yield from unknown(timeline, least=LONG)
    blocked = sleepers(timeline, *_WAITS, least=LONG)
    if len(blocked) < PILE:
        return
    mounts: dict[str, list[Sleeper]] = {}
    for sleeper in blocked:
        written = timeline.series(_WRITES, sleeper.subject)
        mounts.setdefault(written.latest.text if len(written) else "", []).append(sleeper)
    for mount, writers in mounts.items():
        yield _finding(timeline, mount, writers)


def _finding(timeline: Timeline, mount: str, writers: list[Sleeper]) -> Finding:
    names = ", ".join(harmless(it.subject.partition(":")[2]) for it in writers[:NAMED])
    many = f"{len(writers)} task{'s' if len(writers) != 1 else ''}"
    asked = (timeline.series(what, one.subject) for one in writers[:NAMED] for what in (_WRITES, _DEVICE))
    known = [it.latest for it in asked if len(it)]
    which = f"is frozen: {harmless(mount)}" if mount else "has a frozen file system, which its writers' open files show"
    return Finding(
        subject=f"mount:{mount.rpartition(' (')[0]}" if mount else "node",
        span=covering(writers),
        says=(
            f"{which}; {many} waited to write for up to {lasting(writers[0].span.seconds)} in "
            f"{harmless(writers[0].where)}: {names}"
        ),
        evidence=(*(it.reading for it in writers[:NAMED]), *known),
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in writers)),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return "no task waits for a file system to be thawed", (timeline.looks(SECONDS).latest,)
