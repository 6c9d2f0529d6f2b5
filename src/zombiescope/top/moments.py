"""Where a screen's figures come from: a recording that grows, or any moment of one. Moves in time."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any

from zombiescope.agent.apart import Apart
from zombiescope.core import Span, UserError
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.own_limits import MOST_CPU, MOST_MEMORY
from zombiescope.recorder.replay import Recording, opened
from zombiescope.top.frame import Frame, frame_of
from zombiescope.top.look import look
from zombiescope.top.tail import FRESH, Tail, grows

STEP = 2.0  # seconds between two frames
KEPT = 900  # frames in memory: half an hour
CHUNK = 120.0  # seconds of a recording that are read at once, before and after a moment
LOOK_SHARE = 0.012  # of one core, for looks
LOOK_EVERY = 15.0  # seconds at least between two looks of what is live
PATIENCE, MOST_SECONDS = 5.0, 120.0  # of a look: at idle priority, then as others; then it hangs
ASKED = 0.2  # seconds of patience for a moment that a person asked for, and waits for
LOOKS = 40  # kept, by time


class Moments:
    """Frames and looks of one recording: the newest, or those of any moment."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.recording: Recording = opened(folder)
        self.meta = self.recording.meta
        self.frames: deque[Frame] = deque(maxlen=KEPT)
        self._tail = Tail(folder) if grows(folder, time.time()) else None
        self._chunk: tuple[Span, Timeline] | None = None
        self._looks: dict[int, dict[str, Any]] = {}
        self._copy: Apart | None = None
        self._copy_at = 0.0
        self._next_look = 0.0
        self.latest: dict[str, Any] | None = None
        self.at: float | None = None  # the moment that is shown; None: the newest
        self.playing = False  # goes on by itself from a moment that is not the newest
        if self._tail is None:
            self.at = self.recording.span.end

    @property
    def live(self) -> bool:
        return self._tail is not None

    def close(self) -> None:
        if self._copy is not None and not self._copy.over:
            self._copy.kill("it is not needed any more")
        if self._tail is not None:
            self._tail.close()

    def refresh(self, now: float) -> None:
        """Read what is new."""
        if self._tail is not None and self._tail.step(now):
            timeline = self._tail.timeline()
            frame = frame_of(timeline, self._tail.at)
            if frame.cores and (not self.frames or frame.at > self.frames[-1].at):
                self.frames.append(frame)

    def stopped_for(self, now: float) -> float:
        """Seconds for which the recorder has written nothing, if that is longer than it should be."""
        if self._tail is None or not self._tail.at or now - self._tail.at < FRESH:
            return 0.0
        return now - self._tail.at

    @property
    def span(self) -> Span:
        """From the first moment that can be shown to the last."""
        if self._tail is None:
            return self.recording.span
        first = min((int(it) for it in opened(self.folder).segments), default=int(self._tail.at))
        return Span(float(first), self._tail.at)

    def frame(self) -> Frame | None:
        if self.at is None:
            return self.frames[-1] if self.frames else None
        if self.frames and self.at >= self.frames[0].at - STEP / 2:
            return min(self.frames, key=lambda it: abs(it.at - (self.at or 0.0)))
        return frame_of(self._read(self.at), self.at)

    def history(self) -> list[Frame]:
        """Frames in memory up to the moment that is shown."""
        return [it for it in self.frames if self.at is None or it.at <= self.at]

    def move(self, seconds: float) -> None:
        """Back or forward; beyond the end of what grows it is live again."""
        span = self.span
        at = (self.at if self.at is not None else span.end) + seconds
        if at >= span.end:
            self.at = None if self._tail is not None else span.end
        else:
            self.at = max(at, span.start + STEP)

    def _read(self, at: float) -> Timeline:
        """The minutes around a moment; kept, so that the next step costs nothing."""
        if self._chunk is None or not self._chunk[0].start + 10 <= at <= self._chunk[0].end:
            span = Span(at - CHUNK, at + CHUNK)
            source = self.recording if self._tail is None else opened(self.folder)
            self._chunk = (span, source.timeline(span))
        return self._chunk[1]

    # Looks

    @property
    def reading(self) -> int:
        """A file descriptor that has something to read when a look made progress; -1 without one."""
        return self._copy.reading if self._copy is not None and not self._copy.over else -1

    def look(self) -> dict[str, Any] | None:
        """The look for the moment that is shown: the newest, or one of that moment if there is one yet."""
        if self.at is None:
            return self.latest
        return self._looks.get(_key(self.at))

    def tend(self, now: float, *, ready: bool = False) -> bool:
        """Start a look that is due, take one that has ended; whether there is a new one."""
        if self._copy is not None:
            self._copy.step(ready=ready)
            if not self._copy.over:
                return False
            self._keep(self._copy.head, now)
            self._copy = None
            return True
        at = self._wanted(now)
        if at is not None:
            self._copy_at = at
            patience = PATIENCE if self.at is None else ASKED
            self._copy = Apart(
                lambda: look(self.folder, at),
                patience=patience,
                most_seconds=MOST_SECONDS,
                most_memory=MOST_MEMORY,
                most_cpu=MOST_CPU,
            )
            if self._copy.over:
                self._keep(self._copy.head, now)
                self._copy = None
                return True
        return False

    def _wanted(self, now: float) -> float | None:
        if self.at is not None:
            return None if _key(self.at) in self._looks else self.at
        if self._tail is None or not self._tail.at or now < self._next_look:
            return None
        return self._tail.at

    def _keep(self, said: dict[str, Any], now: float) -> None:
        self._next_look = now + max(LOOK_EVERY, said.get("cpu_seconds", 0.0) / LOOK_SHARE)
        self._looks[_key(self._copy_at)] = said
        while len(self._looks) > LOOKS:
            del self._looks[next(iter(self._looks))]
        if self._tail is not None and self._copy_at >= self._tail.at - 2 * LOOK_EVERY:
            self.latest = said


def _key(at: float) -> int:
    return round(at / STEP)


def check(folder: str) -> None:
    """UserError if there is no recording that we may read."""
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: no such folder")
    opened(folder)
