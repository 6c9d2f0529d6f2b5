"""Lines that really go through the kernel's log come out as findings; a limit that is really hit does too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, Run

from zombiescope.lab._zombies import memory_folder

NIC = f"zslab{os.getpid() % 100_000}"
DEVICE = f"0000:{os.getpid() % 0xFFFF:02x}:99.0"
ENA = f"ena {DEVICE} {NIC}: "
EPISODE = (
    f"{ENA}TX q 5 is paused for too long (threshold 5000000). usecs since napi 6012000. napi scheduled: 1. napi CPU: 1",
    f"{ENA}napi handler hasn't been called for a long time but is scheduled",
    f"{ENA}Trigger reset is on",
    f"{ENA}total_resets: 4",
    f"{ENA}queue_0_tx_cnt: 3925390",
    f"ena {DEVICE}: Device reset completed, status: 0, Driver info: ENA v2.17.0g",
)


def log(*lines: str) -> None:
    """As the kernel's own drivers would; each line through a file of its own, which the rate limit is for."""
    for line in lines:
        try:
            with open("/dev/kmsg", "w") as kmsg:
                kmsg.write(f"<4>{line}\n")
        except OSError as error:
            pytest.skip(f"{CANNOT}write to /dev/kmsg: {error.strerror}")


def diagnose(zombiescope: Run, *argv: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(zombiescope("diagnose", "--format", "json", *argv).stdout)
    return shape


@pytest.mark.kernel
def test_a_driver_s_words_become_one_reset_at_the_right_time(zombiescope: Run) -> None:
    before = time.time()
    log(*EPISODE)
    after = time.time()
    shape = diagnose(zombiescope, "--seconds", "1")
    (found,) = [it for it in shape["findings"] if it["subject"] == f"nic:{NIC}"]
    assert found["sign"] == "driver_reset" and "queue 5, polled on cpu 1, 6.0 s since" in found["says"]
    assert before - 1 <= found["span"]["start"] <= found["span"]["end"] <= after + 1
    texts = [it["text"] for it in found["evidence"]]
    assert EPISODE[0] in texts and EPISODE[2] in texts and EPISODE[4] not in texts


@pytest.mark.kernel
def test_hostile_lines_are_shown_harmless(zombiescope: Run) -> None:
    log(f"{ENA}Keep alive watchdog timeout. \x1b[31m\x07")
    shown = zombiescope("diagnose", "--seconds", "0", "--set", "kmsg.PAST=5").stdout
    assert NIC in shown and "\x1b[31m" not in shown and "\x07" not in shown


@pytest.mark.kernel
@pytest.mark.usefixtures("memory_cgroups")
def test_a_limit_that_is_hit_names_the_cgroup_and_the_process(zombiescope: Run) -> None:
    folder = Path(memory_folder()) / f"zslab-oom-{os.getpid()}"
    folder.mkdir()
    try:
        limit = next((it for it in ("memory.limit_in_bytes", "memory.max") if (folder / it).exists()), None)
        if limit is None:
            pytest.skip(f"{CANNOT}limit memory in {folder}")
        (folder / limit).write_text(str(32 << 20))
        hog = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')\nkept = bytearray(256 << 20)\nprint(len(kept))"
        done = subprocess.run([sys.executable, "-c", hog], capture_output=True, check=False, timeout=60)
        if done.returncode == 0:
            pytest.skip(f"{CANNOT}hit a memory limit: swap took it")
        shape = diagnose(zombiescope, "--seconds", "0")
    finally:
        folder.rmdir()
    (found,) = [it for it in shape["findings"] if it["subject"].endswith(folder.name)]
    assert found["sign"] == "oom_kill" and found["subject"].startswith("cgroup:/")
    assert "OOM-killed at its memory limit: python" in found["says"]
    assert {"oom-kill:constraint=CONSTRAINT_MEMCG" in it["text"] for it in found["evidence"]} == {True, False}
