"""Times in files that people and schedulers write: unix seconds, or ISO 8601 (UTC unless it says so)."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        told = datetime.fromisoformat(text.strip())
        value = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    if not 0 <= value < 1e11:
        raise ValueError(f"{text[:40]!r} is not a time")
    return value
