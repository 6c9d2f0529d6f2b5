"""kubectl, run as the user's own: with the caller's folder and variables, which say its context and its credentials.

It is looked for in absolute folders of PATH only: "." would run what a stranger left in this one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE
from typing import Any

from zombiescope.core import UserError, harmless

PATIENCE = 60.0  # seconds for an answer of the API server
FAILED = 2  # exit code: it could not be asked


class Kubectl:
    """`options` come first on each command line, such as --context."""

    def __init__(self, options: Sequence[str] = (), program: str = "kubectl") -> None:
        self._program, self._options = program, options

    def json(self, *argv: str) -> dict[str, Any]:
        try:
            told = json.loads(self.text(*argv, "-o", "json"))
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise UserError(f"kubectl {argv[0]}: the answer is not understood")
        return told

    def text(self, *argv: str, stdin: str = "") -> str:
        """What it prints; a UserError with its own last line if it fails."""
        with self._run(*argv, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            try:
                told, trouble = running.communicate(stdin, PATIENCE)
            except subprocess.TimeoutExpired:
                running.kill()
                raise UserError(f"kubectl {argv[0]}: no answer in {PATIENCE:.0f} s") from None
        if running.returncode:
            said = trouble.strip().splitlines()
            raise UserError(harmless(f"kubectl {argv[0]}: {said[-1] if said else f'exit code {running.returncode}'}"))
        return told

    def passed_on(self, *argv: str) -> int:
        """Run it with our terminal; its exit code. Ctrl-C reaches it too: it is waited for."""
        with self._run(*argv) as running:
            while True:
                try:
                    return running.wait()
                except KeyboardInterrupt:
                    continue

    def started(self, *argv: str) -> subprocess.Popen[str]:
        return self._run(*argv, stdout=PIPE, stderr=PIPE)

    def bytes(self, *argv: str) -> subprocess.Popen[bytes]:
        """What it prints is not text; what it complains of goes to our terminal."""
        return subprocess.Popen(self._command(*argv), cwd=os.curdir, env=os.environ, stdin=DEVNULL, stdout=PIPE)

    def _command(self, *argv: str) -> list[str]:
        folders = os.pathsep.join(it for it in os.get_exec_path() if os.path.isabs(it))
        program = shutil.which(self._program, path=folders)
        if program is None:
            raise UserError("kubectl is not installed, or not on the PATH")
        return [program, *self._options, *argv]

    def _run(self, *argv: str, **streams: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(*argv),
            cwd=os.curdir,
            env=os.environ,
            encoding="utf-8",
            errors="replace",
            stdin=streams.get("stdin"),
            stdout=streams.get("stdout"),
            stderr=streams.get("stderr"),
        )


def talk(says: str) -> None:
    """Progress: never on stdout, which is data."""
    print(harmless(says), file=sys.stderr, flush=True)
