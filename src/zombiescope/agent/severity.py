"""How grave a finding is: by what it costs, never by how many there are of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zombiescope.core.harm import Harm

CRITICAL, WARNING, INFO = "critical", "warning", "info"
GRADES = (INFO, WARNING, CRITICAL)  # from the mildest
# Work that failed and devices that stopped. What crashes at its own start has nobody waiting for it (crashes), and
# lost packets are sent again (drops): both warn.
FATAL = ("jobs", "kills", "resets", "refused")
WAITED = 0.5  # cores' worth of waiting: half of a thread's time, on a node of any size; a deadline is missed then
SOON = 4 * 3600.0  # seconds: it breaks before the next shift comes


def severity(harm: Harm, *, accused: bool) -> str:
    """`info` for what harms nobody, or may: it is counted, and makes no event."""
    if not accused:
        return INFO
    broken = dict(harm.broken)
    fatal = any(broken.get(kind) for kind in FATAL)
    soon = harm.soon_seconds is not None and harm.soon_seconds < SOON
    return CRITICAL if fatal or soon or (harm.waited_cores or 0.0) >= WAITED else WARNING


def only_reboot(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those of a look that are critical and that nothing but a reboot ends."""
    grave = (it for it in findings if it["only_reboot"] and it["severity"] == CRITICAL)
    return [f"{it['sign']} {it['subject']}" for it in grave]


def graver(one: str, other: str) -> str:
    return max(one, other, key=GRADES.index)
