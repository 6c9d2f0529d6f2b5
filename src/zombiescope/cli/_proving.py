"""Prove a fix in a way that can be left alone: recorded to disk, noted in the ledger, resumed if it was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zombiescope.cli._looking import recorded
from zombiescope.core import Finding, Host, UserError, lasting

if TYPE_CHECKING:
    from zombiescope.treatment.ledger import Fix, Ledger
    from zombiescope.treatment.ledger_events import Event
    from zombiescope.treatment.prove import Examined, Proof

MOST_BYTES = 10**9  # of one recording: a window that takes more loses its beginning, and is not whole
_BEFORE, _AFTER = "before", "after"


def left_alone() -> None:
    """A logout or a lost connection does not end it: its result is in the ledger."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def record_before(folder: str, seconds: float, hz: int, settings: tuple[str, ...]) -> Examined:
    """What is wrong now, on disk: a proof that is resumed compares with it."""
    _record(os.path.join(folder, _BEFORE), seconds, hz, settings, "recording")
    return _examined(os.path.join(folder, _BEFORE), settings)


def prove_fixes(
    ledger: Ledger, folder: str, before: Examined, cured: Sequence[Finding], signs: Sequence[str], **how: object
) -> Proof:
    """`how`: the fixes, the window in seconds, and hz."""
    told = {"cured": [[it.sign, it.subject] for it in cured], "signs": sorted(signs), **how}
    return _prove(ledger, {"folder": folder, "settings": list(before.case.settings), **told}, before)


def resume(ledger: Ledger, fix: Fix) -> Proof:
    """Check for the whole window anew: what happened while nothing was recorded is not known."""
    from zombiescope.diagnosis.settings import override
    from zombiescope.treatment.proofs import begun

    event = begun(fix)
    before = _examined(os.path.join(event["folder"], _BEFORE), override(event["settings"]))
    return _prove(ledger, {name: event[name] for name in _KEPT}, before)


_KEPT = ("folder", "settings", "cured", "signs", "fixes", "window", "hz")


def _prove(ledger: Ledger, event: Event, before: Examined) -> Proof:
    from zombiescope.treatment.ledger_events import PROVED, PROVING
    from zombiescope.treatment.proofs import held, note
    from zombiescope.treatment.prove import prove

    after = os.path.join(event["folder"], _AFTER)
    cured = [it for it in before.case.findings if [it.sign, it.subject] in event["cured"]]
    if not cured:
        raise UserError(f"{event['folder']}: what was fixed is not in the recording before the fix: nothing to prove")
    with held(event["folder"]):
        shutil.rmtree(after, ignore_errors=True)
        note(ledger, event["fixes"], PROVING, until=time.time() + event["window"], **event)
        _record(after, event["window"], event["hz"], before.case.settings, "checking")
        proof = prove(before, _examined(after, before.case.settings), cured, event["signs"], event["window"])
        checks = [{"name": it.name, "state": it.state, "says": it.says} for it in proof.checks]
        # First of all in the ledger: the terminal may have gone.
        note(ledger, event["fixes"], PROVED, state=proof.state, checks=checks)
    return proof


def _examined(folder: str, settings: tuple[str, ...]) -> Examined:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.treatment.prove import Examined

    timeline, node, kernel = recorded(folder)
    return Examined(examine(timeline, node=node, kernel=kernel, settings=settings), timeline)


def _record(folder: str, seconds: float, hz: int, settings: tuple[str, ...], doing: str) -> None:
    from zombiescope.recorder.capture import Capture

    shown = seconds >= 1 and sys.stderr.isatty()
    started = time.monotonic()

    def progress(_: str) -> None:
        passed = min(time.monotonic() - started, seconds)
        _say(f"\r{doing}: {lasting(passed)} of {lasting(seconds)} (Ctrl-C ends it early)\x1b[K")

    keeps = {"hours": seconds / 3600 + 1, "most_bytes": MOST_BYTES}
    with Capture(Host(), folder, **keeps, hz=hz, user=True, settings=settings) as capture:  # type: ignore[arg-type]
        capture.run(seconds, progress if shown else None)
        capture.run(0.0)  # every probe once more: a rate needs two samples
    if shown:
        _say("\r\x1b[K")


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone
        print(text, end="", file=sys.stderr, flush=True)
