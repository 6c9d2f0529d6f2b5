"""Proofs in the ledger: when one began, when it ends, what it came to, and whether it still runs.

A proof takes minutes to days. It is an event when it begins ("proving") and one when it ends ("proved", with its
state), and a folder below the ledger's with the recordings before and after the fix. The process that proves holds a
lock in that folder: where nobody holds it and there is no result, the proof was killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from zombiescope.core.errors import Unreadable, UserError
from zombiescope.core.host import why
from zombiescope.core.root_only import PRIVATE_FOLDER, private_folder
from zombiescope.treatment.ledger import PROOFS, Fix, Ledger
from zombiescope.treatment.ledger_events import PROOF, PROVED, PROVING, Event

RUNNING, KILLED = "running", "killed"
KEPT = 5  # folders of earlier proofs: each has some 10 MB for each hour
PATIENCE = 600.0  # seconds to wait for another fix that holds the ledger: as long as one of its steps may take
_LOCK = "proof.lock"


def proof_of(fix: Fix) -> Event | None:
    """The last proof of a fix: its state, since and until when, its folder and its checks; None if there is none."""
    events = [event for event in fix.events if event["event"] in (PROVING, PROVED)]
    begun = next((event for event in reversed(events) if event["event"] == PROVING), None)
    if begun is None:
        return None
    ended = events[-1] if events[-1]["event"] == PROVED else None
    state = ended["state"] if ended else RUNNING if is_held(begun["folder"]) else KILLED
    rest = {"folder": begun["folder"], "checks": ended["checks"] if ended else []}
    return {"state": state, "since": begun["at"], "until": begun["until"], **rest}


def begun(fix: Fix) -> Event:
    """How the last proof of a fix was begun."""
    return next(event for event in reversed(fix.events) if event["event"] == PROVING)


def new_folder(ledger: Ledger) -> str:
    """A folder for a new proof; of the earlier ones the latest few are kept. Nothing else in there is removed."""
    top = os.path.join(ledger.folder, PROOFS)
    new = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    handle = private_folder(top)
    try:
        earlier = sorted(name for name in os.listdir(handle) if PROOF.fullmatch(name))
        os.mkdir(new, PRIVATE_FOLDER, dir_fd=handle)
        os.fchmod(handle, PRIVATE_FOLDER)
        for name in earlier[:-KEPT]:
            if not is_held(os.path.join(top, name)):
                shutil.rmtree(name, ignore_errors=True, dir_fd=handle)
    except OSError as error:
        raise UserError(f"{top}/{new}: cannot be created: {why(error)}") from error
    finally:
        os.close(handle)
    return os.path.join(top, new)


@contextmanager
def held(folder: str) -> Iterator[None]:
    """While this process proves; a second one is refused."""
    try:
        handle = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unreadable(folder, why(error)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError("this proof is running already: `zombiescope fix --list` shows until when") from None
    finally:
        os.close(handle)


def is_held(folder: str) -> bool:
    try:
        handle = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def note(ledger: Ledger, fixes: Sequence[str], event: str, /, **rest: Any) -> None:
    """Write an event for each of these fixes; wait while another fix is being applied."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with ledger.locked():
                for identity in fixes:
                    ledger.write(identity, event, **rest)
                return
        except UserError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
