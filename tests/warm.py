"""The command without its start-up: one process imports all of it once, and forks for each run.

Importing is half of what a short run costs, and the tests make some thousand runs. All else is as ever: a process of
its own with its own arguments, folder, environment and streams, whose exit code is the verdict. What decides at the
start of Python (`PYTHON…`, the locale) cannot be given to a fork: `fits` says so, and such runs start the real command.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

AT_START = ("PYTHON", "LC_", "LANG", "OPENBLAS")  # beginnings of variables that are read before we run
MOST = 1 << 20  # bytes of a request


def fits(env: dict[str, str] | None) -> bool:
    def at_start(variables: dict[str, str]) -> dict[str, str]:
        return {name: it for name, it in variables.items() if name.startswith(AT_START)}

    return env is None or at_start(env) == at_start(dict(os.environ))


def _all_of(streams: tuple[int, ...], deadline: float) -> list[str]:
    said = {it: bytearray() for it in streams}
    open_ones = set(streams)
    while open_ones:
        ready = select.select(list(open_ones), [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            raise TimeoutError
        for stream in ready:
            said[stream] += (more := os.read(stream, 1 << 16))
            if not more:
                open_ones.discard(stream)
    return [it.decode().replace("\r\n", "\n").replace("\r", "\n") for it in said.values()]


class Warm:
    """The process that forks. It ends when its socket is closed: with this process, whatever ends it."""

    def __init__(self, command: Path) -> None:
        self.command = command
        self._asked: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, argv: tuple[str, ...], cwd: object, env: dict[str, str] | None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run does it, with output captured as text and nothing to read."""
        words = [str(self.command), *argv]
        wanted = {"argv": words, "cwd": str(cwd or os.getcwd()), "env": dict(os.environ) if env is None else env}
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, err = os.pipe(), os.pipe()
        with mine, contextlib.ExitStack() as undo:
            undo.callback(os.close, out[0])
            undo.callback(os.close, err[0])
            try:
                socket.send_fds(self._socket(), [json.dumps(wanted).encode()], [theirs.fileno(), out[1], err[1]])
            finally:
                theirs.close()
                os.close(out[1])
                os.close(err[1])
            pid = int(mine.recv(32))
            try:
                said = _all_of((out[0], err[0]), time.monotonic() + timeout)
                mine.settimeout(timeout)
                code = int(mine.recv(32))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout) from None
        return subprocess.CompletedProcess(words, code, *said)

    def _socket(self) -> socket.socket:
        if self._asked is None:
            self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
            words = [sys.executable, "-m", "tests.warm"]
            folder = Path(__file__).parent.parent
            self._process = subprocess.Popen(
                words,
                cwd=folder,
                env=environment,
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,  # as those of its forks are: Python has looked at them by then
                stderr=subprocess.PIPE,
            )
            theirs.close()
        return self._asked

    def close(self) -> None:
        if self._asked is not None and self._process is not None:
            self._asked.close()
            said = self._process.communicate()
            assert said == (b"", b""), said


def main() -> int:
    asked = os.dup(0)
    _import_all()
    gc.collect()
    gc.freeze()  # a fork that looked for garbage would copy every page
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([asked, *running], [], [])[0]:
            if ready != asked:
                pid, answer = running.pop(ready)
                os.close(ready)
                answer.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                answer.close()
                continue
            with socket.socket(fileno=os.dup(asked)) as here:
                words, streams, _, _ = socket.recv_fds(here, MOST, 3)
            if not words:
                return 0
            pid = os.fork()
            if not pid:
                _as_the_command(json.loads(words), streams, [asked, *running])
            answer = socket.socket(fileno=streams[0])
            answer.send(str(pid).encode())
            running[os.pidfd_open(pid)] = (pid, answer)
            os.close(streams[1])
            os.close(streams[2])


def _import_all() -> None:
    import zombiescope

    for it in pkgutil.walk_packages(zombiescope.__path__, "zombiescope."):
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(it.name)


def _as_the_command(wanted: dict[str, Any], streams: list[int], others: list[int]) -> NoReturn:
    from zombiescope.__main__ import main as command

    for it in others:
        os.close(it)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, it in enumerate((nothing, *streams[1:])):
        os.dup2(it, number)
    for it in (nothing, *streams):
        os.close(it)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    sys.argv = wanted["argv"]
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("zombiescope")
    code = 1
    try:
        code = command()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)  # to take a thousand modules apart takes 0.2 s


if __name__ == "__main__":
    sys.exit(main())
