"""The sources of a head, as its NAME records describe them: a probe, or the ring of one core."""

from __future__ import annotations

import json
from typing import NamedTuple

_CORES = 65_536
_LONGEST_NAME = 4096  # bytes in which a source is described; ours have 100


class Ring(NamedTuple):
    """What a source of RING records is."""

    cpu: int
    event: str
    hz: float
    cgroup: bool
    side: bool
    share: float = 1.0  # of the time in which its event counted


def boot_of(content: memoryview) -> str:
    """The boot that a NAME record says; empty if it says anything else."""
    try:
        said = json.loads(bytes(content[:_LONGEST_NAME]))
    except (ValueError, RecursionError):
        return ""
    boot = said.get("boot") if isinstance(said, dict) else ""
    return boot if isinstance(boot, str) else ""


def named(content: memoryview, hz: float) -> Ring | str:
    """What a NAME record says; nothing that is known, if it is anything else."""
    try:
        said = json.loads(bytes(content[:_LONGEST_NAME]))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    probe = said.get("probe")
    if isinstance(probe, str):
        return probe
    cpu, rate, event = said.get("ring", said.get("side")), said.get("hz", hz), said.get("event", "cpu-clock")
    if isinstance(cpu, int) and 0 <= cpu < _CORES and isinstance(rate, int | float) and isinstance(event, str):
        share = said.get("share", 1.0)
        counted = float(min(max(share, 0.0), 1.0)) if isinstance(share, int | float) else 1.0
        return Ring(cpu, event, float(min(max(rate, 0), 1e6)), bool(said.get("cgroup", True)), "side" in said, counted)
    return ""
