"""kubectl, run as the user's own: with the caller's folder and variables, which say its context and its credentials.

It is looked for in absolute folders of PATH only: "." would run what a stranger left in this one.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL, PIPE
from threading import Thread, Timer
from typing import IO, Any

from zombiescope.core import UserError, harmless

PATIENCE = 60.0  # seconds for an answer of the API server
FAILED = 2  # exit code: it could not be asked
ENDS = 5.0  # seconds for the last of its complaints: what kubectl itself started may keep them open
LINE = 65_536  # characters that are cleaned at a time
MOST = 256 << 20  # characters of what a pod prints: a day of folded stacks has 20 MB
MOST_ANSWER = 64 << 20  # of JSON: a node with 500 findings of each sign has 10 MB


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
        """Run it and print what it prints, cleaned; its exit code. Ctrl-C reaches it too: it is waited for."""
        with self._run(*argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as running:
            assert running.stdout is not None and running.stderr is not None
            complaints = Thread(target=_complain, args=(running.stderr,), daemon=True)
            complaints.start()
            try:
                while True:
                    try:
                        if not _pass_on(running.stdout, sys.stdout):
                            raise UserError(f"kubectl {argv[0]}: more than {MOST >> 20} MB: stopped")
                        return running.wait()
                    except KeyboardInterrupt:
                        continue
            finally:
                running.kill()
                complaints.join(ENDS)

    def answer(self, *argv: str, seconds: float, most: int = 0) -> tuple[int, bytes, str]:
        """Its exit code, what it printed, and what it complained of; a UserError if that is too much or too late."""
        most = most or MOST_ANSWER
        with self._begun(*argv) as (running, stderr):
            assert running.stdout is not None
            complaints: list[str] = []
            reader = Thread(target=_keep, args=(stderr, complaints), daemon=True)
            late = Timer(seconds, running.kill)
            reader.start()
            late.start()
            try:
                out = running.stdout.read(most + 1)
                if len(out) > most:
                    raise UserError(f"kubectl {argv[0]}: the answer is longer than {most >> 20} MB")
                code = running.wait()
                if code < 0:
                    raise UserError(f"kubectl {argv[0]}: no answer in {seconds:.0f} s")
                reader.join(ENDS)
                return code, out, "".join(complaints)
            finally:
                late.cancel()
                running.kill()
                reader.join(ENDS)

    @contextmanager
    def stream(self, *argv: str) -> Iterator[IO[bytes]]:
        """What it prints is not text; what it complains of goes to our terminal, cleaned."""
        with self._begun(*argv) as (running, stderr):
            assert running.stdout is not None
            reader = Thread(target=_complain, args=(stderr,), daemon=True)
            reader.start()
            try:
                yield running.stdout
            finally:
                running.kill()
                reader.join(ENDS)

    @contextmanager
    def _begun(self, *argv: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
        """With what it complains of, as text."""
        running = subprocess.Popen(
            self._command(*argv), cwd=os.curdir, env=os.environ, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        assert running.stderr is not None
        with running, io.TextIOWrapper(running.stderr, encoding="utf-8", errors="replace") as complaints:
            yield running, complaints

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


def _pass_on(stream: IO[str], out: IO[str]) -> bool:
    """Line by line, without what a terminal would obey; whether that was all, and no more than MOST."""
    passed = 0
    while line := stream.readline(LINE):
        passed += len(line)
        if passed > MOST:
            return False
        end = "\n" if line.endswith("\n") else ""
        out.write(harmless(line.removesuffix("\n"), most=LINE) + end)
        out.flush()
    return True


def _complain(stream: IO[str]) -> None:
    """On stderr; what is too much is read and thrown away, or who writes it would wait for ever."""
    if not _pass_on(stream, sys.stderr):
        while stream.read(LINE):
            pass


def _keep(stream: IO[str], kept: list[str]) -> None:
    """Its beginning and end."""
    while line := stream.readline(LINE):
        kept.append(line)
        del kept[100:-100]


def talk(says: str) -> None:
    """Progress: never on stdout, which is data."""
    print(harmless(says), file=sys.stderr, flush=True)
