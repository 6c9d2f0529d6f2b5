"""What the agent says: events on stdout, its log on stderr, as text or JSON lines. It never waits for a reader."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zombiescope.core.words import harmless, lasting

PATIENCE = 1.0  # seconds for a reader that is behind; then the line is dropped: events are on disk
PIECE = select.PIPE_BUF  # bytes: a pipe that is ready takes this many at once
LEVELS = ("info", "warning", "error")


class Output:
    """Two streams. A reader that has gone is not written to again."""

    def __init__(self, style: str = "") -> None:
        self.use(style)
        self.dropped = 0
        self._gone: set[int] = set()

    def use(self, style: str) -> None:
        self._json = style == "json" or (not style and not sys.stdout.isatty())

    def log(self, says: str, level: str = "info", **more: Any) -> None:
        says = harmless(says, most=1000)
        if self._json:
            self._write(2, json.dumps({"at": round(time.time(), 3), "level": level, "says": says, **more}))
        else:
            self._write(
                2, f"{_clock(time.time())} {level}: {says}" if level != "info" else f"{_clock(time.time())} {says}"
            )

    def event(self, event: Mapping[str, Any]) -> None:
        self._write(1, json.dumps(event) if self._json else in_words(event))

    def _write(self, stream: int, line: str) -> None:
        if stream in self._gone:
            return
        left = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
        deadline = time.monotonic() + PATIENCE
        try:
            while len(left):
                _, ready, _ = select.select([], [stream], [], max(deadline - time.monotonic(), 0.0))
                if not ready:
                    self.dropped += 1
                    return
                left = left[os.write(stream, left[:PIECE]) :]
        except (BrokenPipeError, ValueError):
            self._gone.add(stream)
        except OSError:  # a full disk under a redirected stdout
            self.dropped += 1


def in_words(event: Mapping[str, Any]) -> str:
    """One line for a person."""
    head = f"{_clock(event['at'])} {event['event'].upper()} {event['severity']} {event['sign']} {event['subject']}"
    if event["event"] == "ended":
        return f"{head}: lasted {lasting(max(event['ended'] - event['began'], 0.0))} [{event['id']}]"
    before = f" (was {event['before']})" if "before" in event else ""
    cost = f"; {event['harm']['says']}" if event["harm"].get("says") else ""
    return f"{head}{before}: {event['says']}{cost} [{event['id']}]"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
