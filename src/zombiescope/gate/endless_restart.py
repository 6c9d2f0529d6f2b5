"""A service that fails at every start would be restarted forever.

Why it matters: systemd gives up on a unit after 5 starts in 10 s. A unit that waits 2 s or more between starts, or
    switches the start limit off, never reaches that: every start creates a cgroup, and each may stay. RestartSec=10
    makes 8,640 a day.
Passes: essential services. Many sound services are meant to come back forever, so that alone is a note. It is an error
    if the program has an exit code that means "do not restart me" and the unit ignores it, as the ECS agent's unit of
    the Debian package does, or if the start limit is off for a service that restarts faster than the default allows.
    A service that only D-Bus would start, at a call, is a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.survey import Row
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, seen_by
from zombiescope.knowledge.agents import gives_up_with

WHEN = ("image", "look", "soak")
FAST = 2.0  # seconds between two starts: systemd's default limit, 5 in 10 s, stops what is faster
DAY = 86_400  # seconds, to say how many starts a day would make


def look(image: Image) -> Iterator[Objection | Blind]:
    for row in _services(image):
        if row.judged.for_ever:
            code = gives_up_with(row.unit)
            called = image.called(row.unit)
            yield Objection(
                subject=f"unit:{row.unit}",
                says=f"{called}{row.judged.says} (up to {DAY / max(row.policy.pause, 0.1):,.0f} starts a day)",
                where=row.path or seen_by("cat", row.unit),
                level="error"
                if not called and (code is not None or (row.policy.unlimited and row.policy.pause < FAST))
                else "note",
                fix=_fix(row, code),
            )


def saw(image: Image) -> str:
    services = _services(image)
    again = sum(row.policy.restarts for row in services)
    return f"services that start, without the essential ones: {len(services)}; with a restart policy: {again}"


def _services(image: Image) -> list[Row]:
    return [row for row in image.survey.rows if (row.starts or row.unit in image.callable) and not row.essential]


def _fix(row: Row, code: int | None) -> tuple[str, ...]:
    drop_in = f"/etc/systemd/system/{row.unit}.d/limit.conf"
    if code is not None:
        return (f"{drop_in}: [Service] RestartPreventExitStatus={code}",)
    return (f"{drop_in}: [Unit] StartLimitIntervalSec={max(row.policy.pause, 1.0) * 10:.0f} StartLimitBurst=5",)
