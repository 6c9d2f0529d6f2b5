"""What was changed on this node, by which user, and the state before: on disk before the change is made.

One line of JSON per event, append-only. A line cut short by a crash does not count: its step had not begun. One fix at
a time: the process that holds the ledger's lock may act, everyone may read.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from zombiescope.core.errors import Unreadable, UserError
from zombiescope.core.host import why
from zombiescope.places.own_folders import LEDGER_ENVIRONMENT, LEDGER_FILE, LEDGER_FOLDER

MOST_BYTES = 256 << 20  # a fix takes a few KB
PROVING, PROVED = "proving", "proved"  # events of a proof: they come after the fix, and are no part of its state
_LOCK = "fixes.lock"
_MOMENT = 5.0  # seconds, on a busy node, from fork to exec
Event = dict[str, Any]


@dataclass(slots=True)
class Fix:
    """All that the ledger holds about one fix."""

    id: str
    events: list[Event] = field(default_factory=list)

    @property
    def plan(self) -> Event:
        found: Event = self.events[0]["plan"]
        return found

    @property
    def state(self) -> str:
        """finished, undone, abandoned, failed at a step, or interrupted: the last event is a step that never ended."""
        last = self._last["event"]
        return last if last in ("finished", "undone", "failed", "abandoned") else "interrupted"

    @property
    def why(self) -> str:
        """Why it failed or was abandoned."""
        return str(self._last.get("why", ""))

    @property
    def _last(self) -> Event:
        """The last event of the fix itself; its proof has events of its own."""
        return next(it for it in reversed(self.events) if it["event"] not in (PROVING, PROVED))

    def steps(self) -> dict[int, dict[str, Event]]:
        """The last event of each kind for each step that was begun and is not undone."""
        found: dict[int, dict[str, Event]] = {}
        for event in self.events:
            step = event.get("step")
            if step is None:
                continue
            if event["event"] == "step undone":
                found.pop(step, None)
            elif event["event"] != "begins" or step not in found:
                # The first "begins" holds the state before; a retry sees files that were already changed.
                found.setdefault(step, {})[event["event"]] = event
        return found


class Ledger:
    """The ledger of one node."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder or os.environ.get(LEDGER_ENVIRONMENT) or LEDGER_FOLDER
        self.path = os.path.join(self.folder, LEDGER_FILE)
        self._locked = False

    def fixes(self) -> list[Fix]:
        """Every fix, the oldest first."""
        found: dict[str, Fix] = {}
        for event in self._events():
            if event["fix"] in found or (event["event"] == "planned" and isinstance(event.get("plan"), dict)):
                found.setdefault(event["fix"], Fix(event["fix"])).events.append(event)
        return list(found.values())

    def fix(self, identity: str) -> Fix:
        known = {fix.id: fix for fix in self.fixes()}
        if identity not in known:
            there = f"there are {', '.join(known)}" if known else "there is none yet"
            raise UserError(f"{self.path}: no such fix: {identity!r}; {there}")
        return known[identity]

    def next_id(self) -> str:
        return str(1 + max((int(fix.id) for fix in self.fixes()), default=0))

    def write(self, fix: str, event: str, **rest: Any) -> None:
        """One event, on the disk when this returns."""
        if not self._locked:
            raise RuntimeError("the ledger is written only under its lock")
        line = json.dumps({"fix": fix, "at": time.time(), "event": event, **rest}) + "\n"
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                whole = (b"\n" if torn else b"") + line.encode()
                if os.write(handle, whole) != len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise Unreadable(self.path, f"cannot be written, so nothing was changed: {why(error)}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock while acting; a process that holds it already is named."""
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            handle = os.open(os.path.join(self.folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UserError(
                f"{self.folder}: {why(error)}; a fix is recorded there before it is applied: "
                "give another folder with --ledger"
            ) from error
        try:
            _take(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            self._locked = True
            yield
        finally:
            self._locked = False
            os.close(handle)

    def _events(self) -> Iterator[Event]:
        try:
            with open(self.path, "rb") as file:
                text = file.read(MOST_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unreadable(self.path, why(error)) from error
        for line in text.split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue  # cut short by a crash, or the end
            if isinstance(event, dict) and {"fix", "at", "event"} <= event.keys() and str(event["fix"]).isdecimal():
                yield event


def who() -> dict[str, Any]:
    """Who acts: the user, the user behind sudo, and the command line."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return {"user": name, "for": os.environ.get("SUDO_USER", ""), "pid": os.getpid(), "argv": sys.argv[:50]}


def _take(lock: int) -> None:
    """The lock, or who holds it. A command that a killed fix was just starting may hold it for a moment longer."""
    deadline = time.monotonic() + _MOMENT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            killed = holder.isascii() and holder.isdecimal() and not os.path.exists(f"/proc/{holder}")
            if not killed or time.monotonic() > deadline:
                says = f"another fix is running (process {holder or '?'}): wait until it has finished"
                raise UserError(says) from None
        time.sleep(0.02)
