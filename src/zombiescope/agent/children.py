"""The agent's own processes: started, listened to, started again after a growing pause when they end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from zombiescope.core import harmless
from zombiescope.places.own_python import FOLDER, environment

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before it is started again, doubled each time
STEADY = 60.0  # seconds: what ran this long did not fail at its start
LOADED = 10.0  # seconds in which one that cannot load what it needs has ended, on a busy node too
MOST_LINE = 32 << 20  # bytes: more without a newline is no answer of ours
Heard = Callable[[str, bytes, bytes], None]  # stream, line, and the bytes that follow it


class Child:
    """One process. Its lines are handed on as they come; reading never waits.

    With `bodies`, each line of its stdout begins with the number of bytes that follow the line, and a blank. `knows`:
    beginnings of the variables that it gets besides the usual ones.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        name: str,
        argv: Callable[[], tuple[str, ...]],
        heard: Heard,
        *,
        bodies: bool = False,
        knows: tuple[str, ...] = (),
    ) -> None:
        self.name, self.starts, self.ended = name, 0, ""  # `ended`: how it last ended
        self._bodies, self._knows = bodies, knows
        self._selector, self._argv, self._heard = selector, argv, heard
        self._process: subprocess.Popen[bytes] | None = None
        self._pause, self._due, self._started = FIRST_PAUSE, 0.0, 0.0
        self._failed, self._words = False, ""  # whether it ended by itself; the last line that it complained with
        self._parts: dict[str, bytearray] = {}

    @property
    def up(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def failing(self) -> str:
        """How it ended, if it does not run; one that has just been started again may end in the same way."""
        starts = not self.up or time.monotonic() - self._started < LOADED
        return self.ended if self._failed and starts else ""

    def start(self, now: float) -> None:
        """A node in trouble may have no process or memory left: then it is tried again, as if it had ended."""
        try:
            self._process = subprocess.Popen(
                self._argv(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=FOLDER,
                env=environment(*self._knows),
                process_group=0,  # Ctrl-C is for the agent, which ends its children in order
            )
        except OSError as error:
            self.ended, self._failed = f"cannot be started: {error.strerror or error}", True
            self._wait(now)
            return
        self.starts += 1
        self._started = now
        for name, stream in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._parts[name] = bytearray()
            self._selector.register(stream, selectors.EVENT_READ, lambda _, it=stream, its=name: self._read(its, it))

    def send(self, line: bytes) -> bool:
        """A line to its stdin; False if it has gone."""
        try:
            assert self._process and self._process.stdin
            os.write(self._process.stdin.fileno(), line)
        except (OSError, AssertionError):
            return False
        return True

    def tick(self, now: float) -> float:
        """Start it when it is time; seconds until there is something to do."""
        if self._process is not None:
            if self._process.poll() is None:
                return 60.0
            self._over(now)
            self._failed = True
        if now >= self._due:
            self.start(now)
        return 60.0 if self._process is not None else self._due - now

    def kill(self) -> None:
        """For one that hangs: it is started again as if it had ended itself."""
        if self._process is not None:
            self._process.kill()

    def restart(self, now: float) -> None:
        """With new arguments, at once."""
        self.stop(10.0)
        self._due, self._failed = now, False

    def stop(self, patience: float) -> None:
        """SIGTERM, and once more if it is lost (Python may drop it while it loads a module); then SIGKILL."""
        if self._process is None:
            return
        with suppress(OSError):
            assert self._process.stdin
            self._process.stdin.close()
        for _ in range(2):
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience / 2)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._over(0.0)

    def _over(self, now: float) -> None:
        assert self._process is not None
        code = self._process.returncode
        self.ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        for name, stream in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            assert stream is not None
            if not stream.closed:
                self._read(name, stream)
            self._close(stream)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if code > 0 and self._words:
            self.ended += f": {self._words}"
        self._process, self._words = None, ""
        self._pause = FIRST_PAUSE if now - self._started >= STEADY else self._pause
        self._wait(now)

    def _wait(self, now: float) -> None:
        self._due = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _read(self, name: str, stream: IO[bytes]) -> None:
        """All that is there now. At its end the stream is closed; `tick` sees why."""
        part = self._parts[name]
        while True:
            try:
                piece = os.read(stream.fileno(), 1 << 18)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                self._close(stream)
                break
            part += piece
            if len(part) > MOST_LINE:
                part.clear()
                self.kill()
                break
        while (end := part.find(b"\n")) >= 0:
            line, length = bytes(part[:end]), 0
            if self._bodies and name == "stdout":
                number, _, line = line.partition(b" ")
                length = int(number) if number.isdigit() else 0
            if len(part) - end - 1 < length:
                break  # the rest of its body is still to come
            body = bytes(part[end + 1 : end + 1 + length])
            del part[: end + 1 + length]
            if name == "stderr" and line.strip():
                self._words = harmless(line.decode("utf-8", "surrogateescape").strip(), most=200)
            self._heard(name, line, body)

    def _close(self, stream: IO[bytes]) -> None:
        if not stream.closed:
            with suppress(KeyError, ValueError):
                self._selector.unregister(stream)
            stream.close()
