"""Events on disk: one JSON line each, appended whole, kept within a limit; a kill -9 at any moment loses none.

    DIR/agent/lock              held by the running agent
    DIR/agent/events.jsonl      the newest; its first lines repeat what went on when the file was begun
    DIR/agent/events.1.jsonl    the ones before
    DIR/agent/posted            the number of the last event that the webhook took

An event is on disk before anybody hears of it. A line that was cut off by a crash was never told, and is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from zombiescope.agent.folder import FOLDER, made
from zombiescope.core import UserError

LOCK, NEW, OLD, PART = "lock", "events.jsonl", "events.1.jsonl", "events.part"
POSTED = "posted"
MOST_BYTES = 4 << 20  # of one file: some 3,000 events; a node that needs more flaps
MOST_LINE = 64 << 10  # bytes of one event
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
REQUIRED = ("event", "id", "seq", "at", "sign", "subject", "severity", "began", "last", "says", "harm", "chain")


class EventLog:
    """The open log. `events` holds what was read when it was opened, oldest first."""

    def __init__(self, folder: str, *, most: int = MOST_BYTES) -> None:
        self.path = os.path.join(folder, FOLDER)
        self._most = most
        self._folder = made(folder)
        try:
            self._lock = _locked(self.path, self._folder)
            self._begin()
        except (OSError, UserError):
            os.close(self._folder)
            raise

    def _begin(self) -> None:
        """Read what is there; remove a line that is cut off."""
        names = os.listdir(self._folder)
        if NEW not in names and PART in names:  # stopped between the two renames of a rotation
            os.replace(PART, NEW, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        with suppress(FileNotFoundError):
            os.unlink(PART, dir_fd=self._folder)
        self._file = os.open(NEW, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FILE, 0o600, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise UserError(f"{self.path}/{NEW}: not a regular file: remove it")
        content = _read(self._file)
        whole = content.rfind(b"\n") + 1
        if whole < os.fstat(self._file).st_size:
            os.ftruncate(self._file, whole)
        lines = [*self._before().splitlines(), *content[:whole].splitlines()]
        self.events = [event for line in lines if (event := _event(line))]
        self._size = whole
        self._number = max((int(it["seq"]) for it in self.events), default=0)

    def _before(self) -> bytes:
        """The older file, if there is one: it has what ended lately, and the last number if the newer one is empty."""
        try:
            handle = os.open(OLD, os.O_RDONLY | _FILE, dir_fd=self._folder)
        except OSError:
            return b""
        try:
            return _read(handle) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)

    def append(self, event: Mapping[str, Any], going_on: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The event with its number, once it is on disk. `going_on`: what a new file must begin with."""
        self._number += 1
        numbered = {"seq": self._number, **event}
        line = _line(numbered)
        if self._size + len(line) > self._most:
            self._rotate(going_on)
        self._write(line)
        return numbered

    def _write(self, line: bytes) -> None:
        """The whole line, or nothing: half of one would make the next one unreadable."""
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(0, "no room for a whole line")
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def _rotate(self, going_on: Iterable[Mapping[str, Any]]) -> None:
        handle = os.open(PART, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _FILE, 0o600, dir_fd=self._folder)
        lines = b"".join(_line(dict(it) | {"repeated": True}) for it in going_on)[: self._most // 2]
        lines = lines[: lines.rfind(b"\n") + 1]
        os.write(handle, lines)
        os.fdatasync(handle)
        os.replace(NEW, OLD, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.replace(PART, NEW, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)
        os.close(self._file)
        self._file, self._size = handle, len(lines)

    def posted(self, number: int) -> None:
        """The webhook took this event: it is not posted again after a restart."""
        with suppress(OSError):  # the worst that follows is an event that is posted twice, with the same id
            handle = os.open(POSTED, os.O_WRONLY | os.O_CREAT | _FILE, 0o600, dir_fd=self._folder)
            os.pwrite(handle, b"%020d\n" % number, 0)
            os.close(handle)

    def not_posted(self) -> list[dict[str, Any]]:
        """Events that were written before a crash and that the webhook has not got; none if it never got any."""
        try:
            handle = os.open(POSTED, os.O_RDONLY | _FILE, dir_fd=self._folder)
        except OSError:
            self.posted(self._number)
            return []
        text = os.read(handle, 32).strip()
        os.close(handle)
        last = int(text) if text.isdigit() else self._number
        return [it for it in self.events if it["seq"] > last and not it.get("repeated")]

    def close(self) -> None:
        for handle in (self._file, self._lock, self._folder):
            os.close(handle)


def _line(event: Mapping[str, Any]) -> bytes:
    """As long as may be: the evidence is left out first, then the chain."""
    for left_out in ((), ("evidence",), ("evidence", "chain")):
        line = json.dumps(dict(event) | {name: [] for name in left_out}, allow_nan=False).encode() + b"\n"
        if len(line) <= MOST_LINE:
            break
    return line


def _event(line: bytes) -> dict[str, Any] | None:
    """What this line says; None where a disk error or an editor left something else."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and all(name in found for name in REQUIRED):
            kinds = (found["began"], found["last"], found["seq"], found.get("ended", 0.0))
            if all(isinstance(it, int | float) for it in kinds):
                return found | {"evidence": found.get("evidence", [])}
    return None


def _read(handle: int) -> bytes:
    content = bytearray()
    while len(content) < 2 * MOST_BYTES and (piece := os.pread(handle, 1 << 20, len(content))):
        content += piece
    return bytes(content)


def _locked(path: str, folder: int) -> int:
    handle = os.open(LOCK, os.O_RDWR | os.O_CREAT | _FILE, 0o600, dir_fd=folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UserError(f"{path}: another agent runs here: stop it, or give another folder") from None
    return handle
