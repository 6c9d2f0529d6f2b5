"""A recorder in a cgroup that is too small for it is OOM-killed, and its recording opens."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND
from tests.waiting import until

from zombiescope.recorder.replay import opened

pytestmark = [pytest.mark.kernel, pytest.mark.alone]
MEMORY = Path("/sys/fs/cgroup/memory")


def test_it_is_killed_and_the_recording_opens(tmp_path: Path) -> None:
    root, file = (MEMORY, "memory.limit_in_bytes") if MEMORY.is_dir() else (MEMORY.parent, "memory.max")
    group = root / f"zombiescope-small-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"{CANNOT}make a cgroup: {error.strerror}")
    process = subprocess.Popen([COMMAND, "record", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: list(tmp_path.glob("*/head")))
        time.sleep(1.5)
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / file).write_text("65536")  # what it takes from now on is charged here
        killed = process.wait(timeout=60)
        ended = time.time()
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{CANNOT}have a process OOM-killed: {error}")
    finally:
        process.kill()
        process.wait()
        group.rmdir()
    assert killed == -9
    recorded = opened(str(tmp_path))
    assert not recorded.damage and ended - recorded.timeline().span.end < 60
    assert recorded.timeline().looked("load1")
