"""What was changed on this node, by which user, and the state before: on disk before the change is made.

One line of JSON per event, append-only. A line cut short by a crash does not count: its step had not begun. One fix at
a time: the process that holds the ledger's lock may act, everyone may read. Undo and resume do what it says, so root
uses only a folder that root alone can change, and a ledger in which another has written is refused whole.
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
from zombiescope.core.root_only import private_file, private_folder
from zombiescope.places.own_folders import LEDGER_ENVIRONMENT, LEDGER_FILE, LEDGER_FOLDER
from zombiescope.treatment.ledger_events import PROVED, PROVING, Event, unwritten, why_not_ours

MOST_BYTES = 256 << 20  # that are read
FULL = 64 << 20  # bytes above which no fix begins: one takes a few KB, so what is begun can also be undone
PROOFS = "proofs"  # the folder of proofs, beside the ledger
_LOCK = "fixes.lock"
_MOMENT = 5.0  # seconds, on a busy node, from fork to exec


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
            elif event["event"] != "begins" or "begins" not in found.get(step, {}):
                # The first "begins" holds the state before; a retry sees files that were already changed.
                found.setdefault(step, {})[event["event"]] = event
        # One that failed before it began has changed nothing.
        return {step: events for step, events in found.items() if "begins" in events}


class Ledger:
    """The ledger of one node."""

    def __init__(self, folder: str = "") -> None:
        self.folder = os.path.abspath(folder or os.environ.get(LEDGER_ENVIRONMENT) or LEDGER_FOLDER)
        self.path = os.path.join(self.folder, LEDGER_FILE)
        self._locked = False

    def fixes(self) -> list[Fix]:
        """Every fix, the oldest first."""
        found: dict[str, Fix] = {}
        for number, event in self._lines():
            fix = event.get("fix") if isinstance(event, dict) else None
            known = found.get(fix) if isinstance(fix, str) else None
            if says := why_not_ours(event, known.plan if known else None):
                raise UserError(
                    f"{self.path}, line {number}: {says}: somebody else, or another version, wrote it, so nothing in "
                    "the ledger is done; move it away, and a new one begins"
                )
            known = found.setdefault(event["fix"], known or Fix(event["fix"]))
            if event["event"] == PROVING:  # a proof is below the ledger's folder, whatever a line says
                event["folder"] = os.path.join(self.folder, PROOFS, os.path.basename(event["folder"]))
            known.events.append(event | {"line": number})
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
            handle = self._opened(LEDGER_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                size = os.fstat(handle).st_size
                if event == "planned":
                    self._refuse_full(size, FULL)
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                whole = (b"\n" if torn else b"") + line.encode()
                if os.write(handle, whole) != len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            says = unwritten(event, rest.get("step"))
            raise Unreadable(self.path, f"cannot be written ({why(error)}): {says}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock while acting; a process that holds it already is named."""
        try:
            handle = self._opened(_LOCK, os.O_RDWR | os.O_CREAT)
        except (OSError, UserError, Unreadable) as error:
            says = f"{self.folder}: {why(error)}" if isinstance(error, OSError) else str(error)
            rest = "a fix is recorded there before it is applied: give another folder with --ledger"
            raise UserError(f"{says}; {rest}") from error
        try:
            _take(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            self._locked = True
            yield
        finally:
            self._locked = False
            os.close(handle)

    def _opened(self, name: str, flags: int) -> int:
        """A file of the ledger's own folder, open."""
        folder = private_folder(self.folder)
        try:
            return private_file(name, folder, flags)
        except Unreadable as error:
            raise Unreadable(f"{self.folder}/{name}", error.why) from None
        finally:
            os.close(folder)

    def _lines(self) -> Iterator[tuple[int, Any]]:
        """What each line says, with its number; without those that were cut short."""
        try:
            os.lstat(self.path)
            with open(self._opened(LEDGER_FILE, os.O_RDONLY), "rb") as file:
                self._refuse_full(os.fstat(file.fileno()).st_size, MOST_BYTES)
                text = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unreadable(self.path, why(error)) from error
        for number, line in enumerate(text.split(b"\n"), 1):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                continue  # cut short by a crash, or the end

    def _refuse_full(self, size: int, most: int) -> None:
        if size > most:
            raise UserError(
                f"{self.path}: it has {size >> 20:,} MB, more than {most >> 20:,}: move it into another folder, where "
                "its fixes can be undone with --ledger FOLDER; a new one begins here"
            )


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
