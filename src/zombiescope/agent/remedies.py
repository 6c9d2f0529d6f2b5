"""The agent's own fixes: begun, watched, written down. Does nothing unless `remediate` is on.

DIR/agent/remedies.jsonl    each fix as it began and as it ended, one JSON line each
"""

from __future__ import annotations

import json
import os
import selectors
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from zombiescope.agent.folder import FOLDER
from zombiescope.agent.output import Output
from zombiescope.agent.remedier import REFUSED, STUCK
from zombiescope.agent.remedying import Choosing, windows
from zombiescope.agent.settings import Settings
from zombiescope.places.own_python import FOLDER as ROOT
from zombiescope.places.own_python import environment, own_python

NAME = "remedies.jsonl"
MOST_BYTES = 1 << 20  # of the file: some thousand fixes
MOST_SAID = 1 << 20  # bytes of what a fix says
NEWEST = 50  # in memory, for /remedies
ENDS = 15.0  # seconds for it to end when the agent does; it is continued at the next start


class Remedies:
    """At most one fix at a time, in a process of its own."""

    def __init__(self, settings: Settings, selector: selectors.BaseSelector, out: Output) -> None:
        self._selector, self._out = selector, out
        self._process: subprocess.Popen[bytes] | None = None
        self._said = bytearray()
        self._result: dict[str, Any] = {}
        self._path = os.path.join(settings.dir, FOLDER, NAME)
        self.newest: list[dict[str, Any]] = []
        self.results: dict[str, int] = {}
        self._choosing = Choosing()
        self.use(settings)
        self._open: dict[str, Any] | None = None  # what began and has no end

    def use(self, settings: Settings) -> None:
        self._settings = settings
        self._choosing.per_day = settings.remediate_per_day
        self._choosing.blackout = windows(settings.remediate_blackout, "remediate-blackout")

    def begin(self) -> None:
        """Read what was done before; go on with what a crash or a stop interrupted."""
        for line in _read(self._path):
            self._note(line)
        if self._open is not None and self._settings.remediate != "on":
            self._out.log(f"the fix of {self._open['subject']} was interrupted: see `zombiescope fix --list`", "error")
        elif self._open is not None:
            self._out.log(f"goes on with the fix of {self._open['subject']}, which was interrupted", "warning")
            self._start(self._open)

    def looked(self, findings: list[Mapping[str, Any]]) -> None:
        if self._settings.remediate != "on" or self._process is not None:
            return
        now = time.time()
        found = self._choosing.choose(findings, now)
        if found is None:
            return
        named = {name: found[name] for name in ("sign", "subject", "severity", "remedy", "says")}
        begun = {"what": "began", "at": round(now, 3), **named}
        if not self._write(begun):
            return  # what cannot be counted is not begun
        self._choosing.began(found, now)
        self._note(begun, counted=True)
        self._out.log(f"fixes {found['sign']} of {found['subject']} by {found['remedy']}", "warning")
        self._start(begun)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS)
            self._end()

    def _start(self, begun: Mapping[str, Any]) -> None:
        it = self._settings
        asked = {"wanted": f"{begun['sign']}:{begun['subject']}", "prove": it.remediate_prove * 60, "set": list(it.set)}
        asked |= {"ledger": it.ledger} | ({"after": begun["after"]} if "after" in begun else {})
        self._said.clear()
        self._result = {}
        try:
            self._process = subprocess.Popen(
                own_python("zombiescope.agent.remedier", str(os.getpid()), json.dumps(asked)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env=environment(),
                process_group=0,
            )
        except OSError as error:
            self._finished({"result": REFUSED, "fixes": [], "why": (error.strerror or str(error)).lower()})
            return
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector.register(self._process.stdout, selectors.EVENT_READ, lambda _: self._heard())

    def _heard(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with suppress(BlockingIOError):
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                self._end()
                return
            self._said += piece
        if len(self._said) > MOST_SAID:
            self._said.clear()
        while (end := self._said.find(b"\n")) >= 0:
            line = bytes(self._said[:end])
            del self._said[: end + 1]
            with suppress(ValueError):
                self._told(json.loads(line))

    def _told(self, said: dict[str, Any]) -> None:
        if "says" in said:
            self._out.log(f"fix: {said['says']}")
        elif "after" in said and self._open is not None:
            self._open["after"] = said["after"]
            self._write({"what": "known", "at": round(time.time(), 3), "after": said["after"]})
        elif "result" in said:
            self._result = said

    def _end(self) -> None:
        """It has ended. Without a result it was killed: that fix stays open, and is continued at the next start."""
        assert self._process is not None and self._process.stdout is not None
        self._selector.unregister(self._process.stdout)
        self._process.stdout.close()
        self._process.wait()
        self._process = None
        if self._result:
            self._finished(self._result)
        else:
            self._out.log("the fix was interrupted: it is continued when the agent starts again", "error")

    def _finished(self, result: Mapping[str, Any]) -> None:
        whose = {name: self._open[name] for name in ("sign", "subject", "remedy")} if self._open else {}
        ended = {"what": "ended", "at": round(time.time(), 3), **whose, **result}
        self._write(ended)
        self._note(ended)
        self.results[result["result"]] = self.results.get(result["result"], 0) + 1
        fixes = ", ".join(map(str, result["fixes"])) or "none"
        why = f": {result['why']}" if result.get("why") else ""
        level = "error" if result["result"] == STUCK else "warning"
        self._out.log(f"fix of {whose.get('subject', '?')} {result['result']}{why} (in the ledger: {fixes})", level)

    def _note(self, line: dict[str, Any], *, counted: bool = False) -> None:
        """One line of the file, as it is written or read again."""
        if line["what"] == "began":
            self._open = dict(line)
            if not counted:
                self._choosing.began(line, float(line["at"]))
        elif line["what"] == "known" and self._open is not None:
            self._open["after"] = line["after"]
            return
        elif line["what"] == "ended":
            if line["result"] == REFUSED and self._open is not None:
                self._choosing.refused(self._open, float(line["at"]))
            self._open = None
        self.newest = [*self.newest[-NEWEST + 1 :], line]

    def _write(self, line: Mapping[str, Any]) -> bool:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(self._path, flags, 0o600)
            try:
                if os.fstat(handle).st_size > MOST_BYTES:
                    raise OSError(0, "it is full: move it away")
                os.write(handle, json.dumps(line).encode() + b"\n")
                os.fdatasync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            self._out.log(f"{self._path}: {error.strerror or error}: nothing is fixed that cannot be counted", "error")
            return False
        return True


def _read(path: str) -> list[dict[str, Any]]:
    """Its whole lines; one that was cut off by a crash is left out."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return []
        content = file.read(2 * MOST_BYTES)
    found = []
    for line in content.splitlines():
        with suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and _whole(said):
                found.append(said)
    return found


def _whole(said: dict[str, Any]) -> bool:
    needed = {"began": ("at", "sign", "subject", "remedy"), "known": ("after",), "ended": ("at", "result")}
    return said.get("what") in needed and all(name in said for name in needed[said["what"]])
