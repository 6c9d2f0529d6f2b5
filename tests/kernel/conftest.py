"""Programs that tests of the kernel run on a core of their choice."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.kernel.sampling import Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Compile a program and run it on one core, ahead of everyone else; it ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def run(text: str, cpu: int) -> subprocess.Popen[bytes]:
        if shutil.which("gcc") is None:
            pytest.skip(f"{CANNOT}compile C (no gcc)")
        source, program = tmp_path / "program.c", tmp_path / f"program{len(running)}"
        source.write_text(text)
        flags = ["-O0", "-fno-omit-frame-pointer", "-w"]
        subprocess.run(["gcc", *flags, "-o", str(program), str(source)], check=True, timeout=60)
        running.append(subprocess.Popen([str(program)]))
        os.sched_setaffinity(running[-1].pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, running[-1].pid, -20)
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()
