"""Write one word to a kernel file, by a process that can be killed when its time is up."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time

from zombiescope.core import Unreadable, harmless
from zombiescope.core.commands import command
from zombiescope.places.own_python import environment

_LAST_PASS = 5.0  # seconds; one pass over 70,000 zombies takes 1.5 s (26 times 0.8 µs each), then signals are seen
# While such a write lasts, a rmdir of that cgroup waits for it and holds the lock of all cgroups: so it is made by a
# process that can be killed. The kernel checks for signals between two passes. The exit code is the errno.
_WRITE = """import os, sys
try:
    sys.argv[3] and os.sync()
    os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())
except OSError as error:
    os._exit(error.errno)
os._exit(0)"""


def write(path: str, text: str, seconds: float, *, sync: bool = False) -> str:
    argv = [sys.executable, "-I", "-S", "-c", _WRITE, path, text, "sync" if sync else ""]
    try:
        child = os.posix_spawn(sys.executable, argv, environment())
    except OSError as error:
        raise Unreadable(path, f"cannot start a process to write it: {error.strerror}") from None
    code = None
    try:
        code = _ended(child, seconds)
    finally:
        if code is None:
            os.kill(child, signal.SIGKILL)
            _ended(child, _LAST_PASS)
    if code not in (None, 0, errno.EAGAIN):
        raise Unreadable(
            path, os.strerror(code).lower() if code in errno.errorcode else "the writing process was killed"
        )
    end = " (stopped: time limit reached)" if code is None else " (EAGAIN: not all was reclaimed)" if code else ""
    wrote = command("tee", path, stdin=text)
    return f"$ {'sync; ' if sync else ''}{wrote}{end}" if wrote else f"wrote {text} to {harmless(path)}{end}"


def _ended(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # with SIGCHLD ignored the exit status is lost; the count still shows the result
            return 0
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None
