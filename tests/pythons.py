"""Pythons of this machine that tell perf the names of their functions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HAS_MAPS = "it.get_config_var('PY_HAVE_PERF_TRAMPOLINE')"  # from 3.12 on: `-X perf` writes /tmp/perf-PID.map
# Without frame pointers in the interpreter the kernel finds its way to the Python frames only by luck.
HAS_FRAMES = f"{HAS_MAPS} and 'no-omit-frame-pointer' in (it.get_config_var('PY_CORE_CFLAGS') or '')"
HAS_DUMPS = f"{HAS_MAPS} and sys.version_info >= (3, 13)"  # `-X perf_jit` writes tables to unwind by as well


def python_that(has: str) -> str | None:
    """The first of which that is true."""
    ask = f"import sys, sysconfig as it; sys.exit(not ({has}))"
    for python in _pythons():
        if subprocess.run([python, "-c", ask], check=False, capture_output=True).returncode == 0:
            return python
    return None


def _pythons() -> Iterator[str]:
    yield sys.executable
    yield from filter(None, (shutil.which(f"python3.{minor}") for minor in range(12, 16)))
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3")))
