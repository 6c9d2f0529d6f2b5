"""Recordings are read on any system: nothing on that way needs what only Linux has."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.conftest import PROJECT

from zombiescope.places.sample import SAMPLE

PAGE = PROJECT / "src/zombiescope/web/static/page.js"
READ = (
    (("diagnose", "--sample"), "PROBLEM", "1"),
    (("diagnose", "--sample", "--format", "html", "-o", "report.html"), "", "1"),
    (("view", "--sample", "-o", "heat.svg"), "", "0"),
    (("flame", SAMPLE), "hottest stacks", "0"),
    (("flame", SAMPLE, "--from", "20", "--to", "30", "-o", "ten.pb.gz"), "", "0"),
    (("info", SAMPLE), "sample-node", "0"),
    (("before", SAMPLE, "--seconds", "1"), "reset", "[01]"),
    (("fix", "--sample", "--ledger", "ledger"), "stop_leaking_unit", "1"),
    (("top", "--sample"), "crash_looping_unit", "0"),
    (("explain", "crash_looping_unit"), "systemd starts", "0"),
    (("completion", "zsh"), "#compdef", "0"),
)
LOOKED_AT = (("diagnose", "--seconds", "0"), ("record", "rec"), ("census",), ("audit",), ("gate",), ("top",), ("fix",))


def without_linux(folder: Path, commands: Iterable[Iterable[str]]) -> subprocess.CompletedProcess[str]:
    """One after the other, each with its exit code on stdout."""
    words = [word for command in commands for word in ("+", *command)][1:]
    environ = {"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    argv = [sys.executable, "-m", "tests.cli.not_linux", *words]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.e2e
def test_a_recording_is_read_without_linux(tmp_path: Path) -> None:
    page = ((("view", "--sample", "-o", "page.html"), "", "0"),) if PAGE.exists() else ()
    done = without_linux(tmp_path, [argv for argv, _, _ in READ + page])
    assert done.returncode == 0, done.stderr[-2000:]
    left = done.stdout
    for argv, says, code in READ + page:
        shown, found, left = left.partition(f"\n{' '.join(argv[:2])}: " if says else f"{' '.join(argv[:2])}: ")
        assert found and says in shown and re.match(f"{code}\n", left), (argv, left[:100])


@pytest.mark.e2e
def test_what_needs_linux_says_so(tmp_path: Path) -> None:
    done = without_linux(tmp_path, LOOKED_AT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"{' '.join(it[:2])}: 2" for it in LOOKED_AT]
    assert len(done.stderr.splitlines()) == len(LOOKED_AT)
    assert all("needs Linux" in line for line in done.stderr.splitlines())
