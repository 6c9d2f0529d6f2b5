"""A real terminal for tests: tmux, with a command in it that believes somebody is looking."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

from tests.waiting import HANGS

PATIENCE = HANGS


class Terminal:
    """A tmux server of our own with one window, in which a command runs; its exit code is left in a file."""

    def __init__(self, folder: Path, width: int, height: int, *argv: str, stays: bool = False) -> None:
        self._socket, self._code = str(folder / "tmux"), folder / "code"
        self.errors = folder / "errors"
        command = f"{shlex.join(argv)} 2>{self.errors}; echo $? >{self._code}{'; sleep 600' * stays}"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "sh", "-c", command)

    def _tmux(self, *argv: str) -> str:
        # Without what readline told the C library of the terminal of pytest: it would be believed before ours.
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        command = ["tmux", "-S", self._socket, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environ).stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def all(self) -> str:
        """With what has scrolled off."""
        return self._tmux("capture-pane", "-p", "-S", "-")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, *words: str, without: str = "") -> str:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            shown = self.screen()
            if all(it in shown for it in words) and (not without or without not in shown):
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{words} did not appear:\n{self.screen()}\n{self.errors.read_text()}")

    def code(self) -> int:
        end = time.monotonic() + PATIENCE
        while not self._code.exists() or not self._code.read_text():
            assert time.monotonic() < end, self.screen()
            time.sleep(0.1)
        return int(self._code.read_text())

    def pid(self) -> int:
        """Of the command in the window."""
        shell = self._tmux("list-panes", "-F", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def close(self) -> None:
        self._tmux("kill-server")
