"""What a SAMPLE record of a head says, which may come from a stranger. Standard library only."""

from __future__ import annotations

import json
import math
from typing import Any

from zombiescope.core import Blind, Reading
from zombiescope.recorder.sampling import Sample

LATEST = 9e9  # unix seconds: the year 2255. Beyond it a time is damage, and its nanoseconds soon are no 64-bit number


def sample_of(content: memoryview) -> Sample | None:
    """None if it is anything else."""
    try:
        return _sampled(json.loads(bytes(content)))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _sampled(said: Any) -> Sample:
    readings = [
        Reading(what=what, subject=subject, value=float(value), at=_time(at), source=source, text=text)
        for what, subject, value, at, source, text in said["readings"]
        if _are(str, what, subject, source, text) and _are(float, value)
    ]
    blind = [
        Blind(what=what, source=source, why=why, subject=subject)
        for what, source, why, subject in said["blind"]
        if _are(str, what, source, why, subject)
    ]
    cost = float(said["cost"]) if _are(float, said["cost"]) and math.isfinite(said["cost"]) else 0.0
    return Sample(_time(said["at"]), tuple(readings), blind, cost)


def _are(kind: type, *said: Any) -> bool:
    """Texts, or numbers, whole ones included; else a TypeError."""
    for it in said:
        if type(it) is not kind and (kind is str or type(it) is not int):
            raise TypeError
    return True


def _time(said: Any) -> float:
    if not _are(float, said) or not 0 <= said < LATEST:
        raise ValueError
    return float(said)
