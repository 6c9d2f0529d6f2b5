"""The examiner: a process that has all checks loaded, and makes a copy of itself (fork) for each look.

Loading numpy, Arrow and the checks takes 0.5 s of CPU, a look 0.3 s: a process started for each look would double the
cost. A process that looks itself would keep what a look takes at its peak; a copy gives all of it back when it ends,
and can be killed when it hangs. The copy runs only when nobody else wants the core (SCHED_IDLE); on a node that has no
idle time it gets an ordinary turn after `PATIENCE`: a starving node must be looked at too.

One line of JSON in, {"window": 600, "since": 1794000000.0}; one line out: what `look` returns, or {"error": "…"}.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from zombiescope.agent.child import die_with_parent
from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.core.words import harmless
from zombiescope.outputs._exit_codes import USAGE

PATIENCE = 15.0  # seconds at idle priority; a look takes less than one on an idle core
MOST_SECONDS = 120.0  # a look that takes longer hangs
MOST_ANSWER = 16 << 20  # bytes
Act = Callable[[], dict[str, Any]]


def main(argv: list[str]) -> int:
    folder, parent, *overrides = argv
    die_with_parent(int(parent))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts a thread for each core otherwise
    from zombiescope.agent import look
    from zombiescope.diagnosis.settings import override
    from zombiescope.members.rooms import members

    try:
        override(overrides)
    except UserError as error:
        print(error, file=sys.stderr)
        return USAGE
    for room in ("signs", "laws", "questions", "remedies"):
        members(room)
    gc.collect()
    gc.freeze()  # what is shared with the copies stays shared
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = _apart(partial(look.look, folder, float(asked["window"]), float(asked["since"])))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer["cpu_seconds"] = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        answer["seconds"] = time.monotonic() - began
        answer["peak_bytes"] = used.ru_maxrss * 1024
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def _apart(act: Act) -> dict[str, Any]:
    """What `act` returns, worked out in a copy of this process."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:  # no process or memory left on this node
        os.close(reading)
        os.close(writing)
        return {"error": f"no process could be made for the look: {(error.strerror or str(error)).lower()}"}
    if not pid:
        os.close(reading)
        _work(act, writing)
    os.close(writing)
    try:
        content, why = _answer(reading, pid)
    finally:
        os.close(reading)
    _, status = os.waitpid(pid, 0)
    if why:
        return {"error": why}
    if status or not content:
        return {"error": f"the look ended early: {_ended(status)}"}
    found: dict[str, Any] = json.loads(content)
    return found


def _work(act: Act, writing: int) -> None:
    """In the copy. It ends here, whatever happens."""
    code = 1
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        answer = _guarded(act)
        with open(writing, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
        code = 0
    finally:
        os._exit(code)


def _guarded(act: Act) -> dict[str, Any]:
    from zombiescope.members.rooms import Broken, guarded

    try:
        found: dict[str, Any] | Broken = guarded(act)
    except (UserError, Unreadable, Unparsable) as error:
        return {"error": harmless(str(error))}
    return {"error": f"this is a bug, please report it: {found.why}"} if isinstance(found, Broken) else found


def _answer(reading: int, pid: int) -> tuple[bytes, str]:
    """All that the copy writes; it gets an ordinary turn if it has to wait too long, and is killed if it hangs."""
    content = bytearray()
    began = time.monotonic()
    raised = False
    while True:
        passed = time.monotonic() - began
        if passed > MOST_SECONDS or len(content) > MOST_ANSWER:
            os.kill(pid, signal.SIGKILL)
            return b"", f"the look was stopped after {passed:.0f} s and {len(content):,} bytes"
        if passed > PATIENCE and not raised:
            raised = True
            with suppress(OSError):  # it has just ended
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
        ready, _, _ = select.select([reading], [], [], 1.0)
        if ready:
            piece = os.read(reading, 1 << 20)
            if not piece:
                return bytes(content), ""
            content += piece


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
