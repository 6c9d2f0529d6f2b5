"""A Python program that starts Ray, in namespaces of its own as a container has: all that Ray starts ends with it.

Ray is large (400 MB) and no part of the development dependencies: install it beside (`pip install ray
opentelemetry-sdk opentelemetry-exporter-prometheus`) for such tests.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.conftest import CANNOT

from zombiescope.lab._scenario import name_for

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason=CANNOT + "run Ray: it is not installed")


@contextmanager
def contained(home: Path, script: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """When the first process of a PID namespace goes, all that Ray started goes with it."""
    folder = Path("/tmp") / name_for("ray")  # short: the paths of sockets have at most 107 bytes
    folder.mkdir()
    # Ray takes one part of OpenTelemetry, which our other tests need, for all of it, and does not start: it sees none.
    hidden = home / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text('import sys\nsys.modules["opentelemetry"] = None\n')
    inside = f'mount -t tmpfs tmpfs {folder} && ip link set lo up && exec "$@"'
    environ = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": str(hidden),
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "disabled",  # nobody else is in this network namespace
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    alone = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", inside, "sh"]
    command = [*alone, sys.executable, str(script), *argv]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, text=True, env=environ, **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


def told(pipe: IO[str] | None, word: str) -> list[str]:
    """The rest of the line that begins so, among all that Ray prints; what came before it explains a failure."""
    assert pipe is not None
    lines = []
    for line in pipe:
        if line.startswith(word):
            return line.split()[1:]
        lines.append(line)
    pytest.fail(f"Ray ended before it said {word!r}: {''.join(lines[-20:])}")
