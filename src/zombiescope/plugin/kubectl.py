"""kubectl, run as the user's own: its context, its credentials and its plugins for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from zombiescope.core import UserError, harmless

PATIENCE = 60.0  # seconds for an answer of the API server
FAILED = 2  # exit code: it could not be asked


class Kubectl:
    """`options` come first on each command line, such as --context."""

    def __init__(self, options: Sequence[str] = (), program: str = "kubectl") -> None:
        self._start = (program, *options)

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
        try:
            done = subprocess.run(
                [*self._start, *argv], input=stdin.encode(), capture_output=True, timeout=PATIENCE, check=False
            )
        except FileNotFoundError:
            raise UserError("kubectl is not installed, or not on the PATH") from None
        except subprocess.TimeoutExpired:
            raise UserError(f"kubectl {argv[0]}: no answer in {PATIENCE:.0f} s") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UserError(harmless(f"kubectl {argv[0]}: {said[-1] if said else f'exit code {done.returncode}'}"))
        return done.stdout.decode("utf-8", "replace")

    def passed_on(self, *argv: str) -> int:
        """Run it with our terminal; its exit code. Ctrl-C reaches it too: it is waited for."""
        with subprocess.Popen([*self._start, *argv]) as running:
            while True:
                try:
                    return running.wait()
                except KeyboardInterrupt:
                    continue

    def started(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._start, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def talk(says: str) -> None:
    """Progress: never on stdout, which is data."""
    print(harmless(says), file=sys.stderr, flush=True)
