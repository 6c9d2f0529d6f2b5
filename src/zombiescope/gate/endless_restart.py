"""A service that fails at every start would be started again for ever.

Why it matters: systemd gives a unit up after 5 starts in 10 s. One that waits 2 s or more between starts, or switches
    the limit off, never gets there: every start is a cgroup, and each may stay. RestartSec=10 makes 8,640 a day.
Passes: services that a machine needs to be a machine. Many sound services are meant to come back for ever, so that
    alone is a note. It is an error where the program has an exit code that says "do not start me again" and the unit
    does not heed it, as the ECS agent's unit of the Debian package, or where the limit was switched off for a service
    that starts faster than systemd would ever let it.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.survey import Row
from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection
from zombiescope.knowledge.agents import gives_up_with

WHEN = ("image", "look", "soak")
FAST = 2.0  # seconds between two starts: systemd's own limit, 5 in 10 s, gives up on what is faster
DAY = 86_400  # seconds, to say how many starts a day would make


def look(image: Image) -> Iterator[Objection | Blind]:
    for row in _services(image):
        if row.judged.for_ever:
            code = gives_up_with(row.unit)
            unlimited = row.policy.interval <= 0 or row.policy.burst <= 0
            yield Objection(
                subject=f"unit:{row.unit}",
                says=f"{row.judged.says} (up to {DAY / max(row.policy.pause, 0.1):,.0f} starts a day)",
                where=row.path or f"$ systemctl cat {row.unit}",
                level="error" if code is not None or (unlimited and row.policy.pause < FAST) else "note",
                fix=_fix(row, code),
            )


def saw(image: Image) -> str:
    services = _services(image)
    again = sum(row.policy.restarts for row in services)
    return f"services that start beside the essential ones: {len(services)}; with a restart policy: {again}"


def _services(image: Image) -> list[Row]:
    return [row for row in image.survey.rows if row.starts and not row.essential]


def _fix(row: Row, code: int | None) -> tuple[str, ...]:
    drop_in = f"/etc/systemd/system/{row.unit}.d/limit.conf"
    if code is not None:
        return (f"{drop_in}: [Service] RestartPreventExitStatus={code}",)
    return (f"{drop_in}: [Unit] StartLimitIntervalSec={max(row.policy.pause, 1.0) * 10:.0f} StartLimitBurst=5",)
