"""Something worked out in a copy (fork) of this process: what it takes at its peak goes when it ends.

The copy runs only when nothing else wants the core (SCHED_IDLE); on a node that has no idle time it gets an ordinary
turn after `patience`, and a better one later: a starving node must be looked at too. If it stands still for long it is
killed; that it waits for a core is no reason. What it reads may be a hostile program's: its memory and its CPU time are
limited, and it ends alone.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.core.words import amount, harmless
from zombiescope.recorder.own_limits import restrict
from zombiescope.recorder.priority import STEPS
from zombiescope.recorder.standing import Standing

MOST_ANSWER = 32 << 20  # bytes
PIECE = 1 << 20
NICE = (0, *STEPS)  # one step more each time its patience has doubled
Act = Callable[[], tuple[dict[str, Any], bytes]]  # what is said, and the bytes that follow it


class Apart:
    """A copy at work. `reading` has something to read when `step` should be called; `over` once it has ended."""

    def __init__(self, act: Act, *, patience: float, most_seconds: float, most_memory: int, most_cpu: int) -> None:
        """`most_seconds`: for which it may stand still."""
        self.over = False
        self.head: dict[str, Any] = {}
        self.body = b""
        self._content = bytearray()
        self._began = time.monotonic()
        self._patience, self._most, self._raised = patience, most_seconds, 0
        self._most_cpu = most_cpu
        self.reading, writing = os.pipe()
        try:
            self._pid = os.fork()
        except OSError as error:  # no process or memory left on this node
            os.close(writing)
            os.close(self.reading)
            self.over = True
            self.head = {"error": f"no process could be made for the look: {(error.strerror or str(error)).lower()}"}
            return
        if not self._pid:
            os.close(self.reading)
            _work(act, writing, most_memory, most_cpu)
        os.close(writing)
        self._standing = Standing(self._pid, self._began)

    def step(self, *, ready: bool) -> None:
        """Read what is there; raise its priority if it waits too long, kill it if it hangs."""
        now = time.monotonic()
        passed = now - self._began
        if ready:
            piece = os.read(self.reading, PIECE)
            if not piece:
                self._end("")
                return
            self._content += piece
        if self._standing.still(now) > self._most or len(self._content) > MOST_ANSWER:
            self.kill(f"it was stopped after {passed:.0f} s and {len(self._content):,} bytes")
        elif self._raised < len(NICE) and passed > self._patience * 2**self._raised:
            with suppress(OSError):  # it has just ended
                if not self._raised:
                    _schedule(self._pid, "SCHED_OTHER")
                os.setpriority(os.PRIO_PROCESS, self._pid, NICE[self._raised])
            self._raised += 1

    def kill(self, why: str) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._end(why)

    def _end(self, why: str) -> None:
        os.close(self.reading)
        _, status, used = os.wait4(self._pid, 0)
        self.over = True
        line, _, body = bytes(self._content).partition(b"\n")
        self._content.clear()
        if why:
            self.head = {"error": why}
        elif status or not line:
            self.head = {"error": f"the look ended early: {self._how(status)}"}
        else:
            self.head, self.body = json.loads(line), body
        self.head |= {
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "seconds": time.monotonic() - self._began,
            "peak_bytes": used.ru_maxrss * 1024,
        }

    def _how(self, status: int) -> str:
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return f"it took more than {self._most_cpu} s of CPU time"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _work(act: Act, writing: int, most_memory: int, most_cpu: int) -> None:
    """In the copy. It ends here, whatever happens."""
    code = 1
    try:
        _schedule(0, "SCHED_IDLE")
        restrict(most_memory, most_cpu)
        head, body = _guarded(act, most_memory)
        with open(writing, "wb") as pipe:
            pipe.write(json.dumps(head).encode() + b"\n")
            pipe.write(body)
        code = 0
    finally:
        os._exit(code)


def _schedule(pid: int, policy: str) -> None:
    """Only Linux has these policies; `top` shows a recording on any system."""
    if hasattr(os, policy):
        os.sched_setscheduler(pid, getattr(os, policy), os.sched_param(0))


def _guarded(act: Act, most_memory: int) -> tuple[dict[str, Any], bytes]:
    from zombiescope.members.rooms import Broken, guarded

    try:
        found: tuple[dict[str, Any], bytes] | Broken = guarded(act)
    except (UserError, Unreadable, Unparsable) as error:
        return {"error": harmless(str(error)), "asked": isinstance(error, UserError)}, b""
    if isinstance(found, Broken):
        if "MemoryError" in found.why:  # Arrow's own is named so, too
            why = f"it needs more than {amount(most_memory)} of memory; a shorter range needs less"
            return {"error": why, "asked": True}, b""
        return {"error": f"this is a bug, please report it: {found.why}"}, b""
    return found
