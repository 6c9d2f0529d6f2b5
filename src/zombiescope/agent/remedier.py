"""Carries out one fix and stays with it: `fix --apply --prove`, and `fix --undo` unless it was proved.

A process of its own, which does what a person would do on a terminal, with the same verb. So all that `fix` refuses is
refused here too: plans that disrupt, essential units, what could not be checked; and what rests on facts that a
container can choose (`--unattended`). It writes JSON lines: what was said, and last the result.

    {"wanted": "crash_looping_unit:unit:ecs.service", "prove": 600, "set": [], "after": 3}

`after`: the number of the last fix in the ledger before it began, if it was interrupted then: it is continued.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from zombiescope.agent.child import die_with_parent
from zombiescope.core.words import harmless
from zombiescope.places.own_python import FOLDER, environment, own_python

PROVED, UNDONE, REFUSED, STUCK = "proved", "undone", "refused", "stuck"
LOOKS = 30.0  # seconds that `fix` looks before it plans
SPARE = 900.0  # seconds beside the proof: recording before it, applying, a node that is slow
MOST = 4 << 20  # bytes of what `fix` says that are read
_Said = tuple[bytes, bytes]  # stdout, stderr
_UNREAD = "the ledger of fixes could not be read: see `zombiescope fix --list`"
DONE = 0  # exit code of `fix`: applied, and proved


class Remedier:
    """One fix, from its beginning to its end."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._running: subprocess.Popen[bytes] | None = None

    def run(self) -> dict[str, Any]:
        asked = self._asked
        before = asked.get("after")
        if before is None:
            known = self._numbers()
            if known is None:
                return {"result": REFUSED, "fixes": [], "why": _UNREAD}
            before = max(known, default=0)
            say({"after": before})
            code, said = self._fix(
                "--unattended", "--apply", "--prove", f"{asked['prove']:.0f}s", *self._settings(), "--", asked["wanted"]
            )
        else:
            code, said = self._continued(before)
        known = self._numbers()
        if known is None:  # something may have been changed: this is not "refused"
            return {"result": STUCK, "fixes": [], "why": _why(said) or _UNREAD}
        new = [it for it in known if it > before]
        if code == DONE and new:
            return {"result": PROVED, "fixes": new}
        if not new:
            return {"result": REFUSED, "fixes": [], "why": _why(said)}
        undone = [self._fix("--undo", str(it))[0] == DONE for it in reversed(new)]
        return {"result": UNDONE if all(undone) else STUCK, "fixes": new, "why": _why(said) or "it was not proved"}

    def _continued(self, before: int) -> tuple[int, _Said]:
        """One that was interrupted goes on; what had not begun does not begin now: the node may be another by now."""
        code, said = DONE, (b"", b"")
        for number in [it for it in self._numbers() or () if it > before]:
            one, said = self._fix("--resume", str(number), "--format", "json")
            code = code or one
        return code, said

    def _settings(self) -> list[str]:
        return [word for one in self._asked.get("set", []) for word in ("--set", one)]

    def _numbers(self) -> list[int] | None:
        """Of the fixes in the ledger; None if it could not be read."""
        code, (out, _) = self._fix("--list", "--format", "json", quiet=True)
        with suppress(ValueError, TypeError, KeyError):
            return [int(it["fix"]) for it in json.loads(out)] if code == DONE else None
        return None

    def _fix(self, *options: str, quiet: bool = False) -> tuple[int, _Said]:
        ledger = ("--ledger", self._asked["ledger"]) if self._asked.get("ledger") else ()
        self._running = subprocess.Popen(
            own_python("zombiescope", "fix", *ledger, *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=FOLDER,
            env=environment(),
        )
        try:
            out, errors = self._running.communicate(timeout=self._asked["prove"] + SPARE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            out, errors = self._running.communicate()
        code, self._running = self._running.returncode, None
        if not quiet:
            for line in errors[:MOST].splitlines()[-20:]:
                say({"says": harmless(line.decode("utf-8", "replace"), most=500)})
        return code, (out[:MOST], errors[:MOST])

    def stop(self, _: int, __: FrameType | None) -> None:
        """The agent ends: `fix` has written each step before it took it, and is continued at the next start."""
        if self._running is not None:
            self._running.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._running.wait(5)
        os._exit(1)


def _why(said: _Said) -> str:
    """The check of the proof that did not hold, or the last that `fix` said."""
    out, errors = said
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        proof = json.loads(out)["proof"]
        failed = [f"{it['name']}: {it['says']}" for it in proof["checks"] if it["state"] != "held"]
        if failed:
            return harmless(f"{proof['state']}: {'; '.join(failed)}", most=500)
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return harmless(lines[-1], most=500) if lines else ""


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def main(argv: list[str]) -> int:
    parent, asked = argv
    die_with_parent(int(parent))
    remedier = Remedier(json.loads(asked))
    signal.signal(signal.SIGTERM, remedier.stop)
    say(remedier.run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
