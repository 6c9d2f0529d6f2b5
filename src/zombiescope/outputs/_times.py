"""Times as a person on call reads them: UTC, and beside it the zone of who reads."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def utc(at: float, *, day: bool = False) -> str:
    moment = _moment(at)
    return "??:??:??" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC" if day else "%H:%M:%S")


def local(at: float) -> str:
    """In the reader's own zone, with its name; empty where that is UTC."""
    moment = _moment(at)
    here = moment.astimezone() if moment is not None else None
    return f"{here:%H:%M:%S} {here.tzname()}" if here is not None and here.utcoffset() else ""


def both(at: float, *, day: bool = False) -> str:
    here = local(at)
    return f"{utc(at, day=True) if day else utc(at) + ' UTC'}" + (f" ({here})" if here else "")


def _moment(at: float) -> datetime | None:
    """None for what is no time: a recording may claim any."""
    return datetime.fromtimestamp(at, UTC) if math.isfinite(at) and 0 <= at < 4e9 else None
