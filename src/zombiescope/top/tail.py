"""Follow a recording while it grows: only what is new in its head is read, and of that only what a frame needs.

A head is settled every few minutes; until then its stacks have no names. So the figures come from here, each second
that is shown, and stacks and findings now and then from a look at all of it (look.py).
"""

from __future__ import annotations

import io
import os
import struct
from typing import BinaryIO

from zombiescope.core import UserError
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.clock import seconds
from zombiescope.recorder.head import CLOCK, FETCHED, MAGIC, NAME, SAME, HeadReader, Record
from zombiescope.recorder.layout import HEAD_FILE, META, is_segment
from zombiescope.recorder.meta import open_regular, read_meta
from zombiescope.recorder.readings import SettledProbes
from zombiescope.recorder.sources import named
from zombiescope.top.frame import NEEDS
from zombiescope.top.store import Store

PIECE = 4 << 20  # bytes read at once
PIECES = 16  # of a head at once: more than the largest has
APART = 0.95  # seconds between two looks of a probe that are parsed: /proc/stat is read four times a second
EARLIER = 10.0  # seconds between those that were there before we came
FRESH = 20.0  # seconds: a recorder writes every second, so a head that is older is not being written


class Tail:
    """The last readings of the recording in a folder; `step` reads what is new."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.meta = read_meta(os.path.join(folder, META))
        gives = self.meta.get("gives", {})
        self._wanted = {probe for probe, whats in gives.items() if not set(NEEDS).isdisjoint(whats)}
        self._store = Store()
        self._probes = SettledProbes(self._store, gives)
        self._file: BinaryIO | None = None
        self._segment = ""
        self._begin()
        self.at = 0.0  # of the last record

    def _begin(self) -> None:
        """A new head: it begins with every value, and gives its sources new numbers."""
        self._rest = b""
        self._sources: dict[int, str] = {}
        self._last: dict[str, bytes] = {}  # what a probe fetched last
        self._parsed: dict[str, float] = {}
        self._ahead: int | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def step(self, now: float) -> bool:
        """Read what is new; whether there was anything."""
        came = False
        for _ in range(PIECES):
            if self._file is None and not self._next():
                break
            came |= self._read(now)
            newest = newest_head(self.folder)
            if not newest or newest <= self._segment:
                break
            if not self._read(now):  # all of the old one is read
                self.close()
        self._probes.finish()
        return came

    def timeline(self) -> Timeline:
        return self._store.timeline(self.at)

    def _next(self) -> bool:
        newest = newest_head(self.folder)
        if not newest or newest <= self._segment:
            return False
        try:
            self._file = open_regular(os.path.join(self.folder, newest, HEAD_FILE))
        except OSError:
            return False
        self._segment = newest
        self._begin()
        return True

    def _read(self, now: float) -> bool:
        came = False
        assert self._file is not None
        while True:
            piece = self._file.read(PIECE)
            if not piece:
                return came
            came = True
            content = self._rest + piece
            if not content.startswith(MAGIC):
                content = MAGIC + content
            reader = HeadReader(io.BytesIO(content))
            for record in reader:
                self._take(record, now)
            self._rest = content[reader.end :]

    def _take(self, record: Record, now: float) -> None:
        if record.kind == CLOCK and len(record.content) == 8:
            self._ahead = struct.unpack("<q", record.content)[0]
        elif record.kind == NAME:
            found = named(record.content, 0.0)
            self._sources[record.source] = found if isinstance(found, str) and found in self._wanted else ""
        elif (probe := self._sources.get(record.source, "")) and self._ahead is not None:
            at = seconds(record.at + self._ahead)
            self.at = max(self.at, at)
            if record.kind == FETCHED:
                self._last[probe] = bytes(record.content)
            if at - self._parsed.get(probe, 0.0) < (APART if at > now - EARLIER else EARLIER):
                return
            if record.kind in (FETCHED, SAME) and probe in self._last:
                self._parsed[probe] = at
                self._probes.fetched(probe, at, self._last[probe])
                self._probes.finish()
            elif (said := self._probes.sample(probe, record, self._ahead)) is not None:
                self._parsed[probe] = at
                self._probes.look(probe, *said)


def newest_head(folder: str) -> str:
    """The segment that is being written; empty if there is none."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((it.name for it in entries if is_segment(it.name)), reverse=True)
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or str(error)).lower()}") from error
    return next((it for it in found[:2] if os.path.isfile(os.path.join(folder, it, HEAD_FILE))), "")


def grows(folder: str, now: float) -> bool:
    """Whether a recorder writes into it at this moment."""
    try:
        newest = newest_head(folder)
        return bool(newest) and os.stat(os.path.join(folder, newest, HEAD_FILE)).st_mtime > now - FRESH
    except (OSError, UserError):
        return False
