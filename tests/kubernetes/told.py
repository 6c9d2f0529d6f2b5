"""Findings that go on, as the agent has them, for tests of what the cluster hears."""

from __future__ import annotations

import time
from typing import Any

STATES = dict.fromkeys(
    ("crash_looping_unit", "zombie_cgroups", "starved_softirq", "saturated_core", "oom_kill"), "clear"
)


def going_on(sign: str = "crash_looping_unit", subject: str = "unit:ecs.service", **more: Any) -> dict[str, Any]:
    chain = [{"sign": sign, "subject": subject, "says": "keeps crashing"}]
    return {
        "id": f"{abs(hash((sign, subject))):016x}"[:16],
        "sign": sign,
        "subject": subject,
        "severity": "warning",
        "says": "keeps crashing: 14 restarts, one every 4.2 s",
        "began": time.time() - 60,
        "harm": {"says": "costs 14 crashes"},
        "chain": chain,
        "evidence": [],
    } | more
