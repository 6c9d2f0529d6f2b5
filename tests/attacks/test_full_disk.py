"""Attacks on the evidence by its disk: somebody fills it while it is recorded on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, COMMAND, Run
from tests.recorder.test_folder import fill_second, heads
from tests.recorder.test_replay import Clock
from tests.waiting import until

from zombiescope.recorder.replay import opened

pytestmark = [pytest.mark.kernel, pytest.mark.beside]
FILLS = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    for size in (65536, 1):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "disk"
    point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(point)], check=False).returncode:
        pytest.skip(CANNOT + "mount a small disk")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)  # what a failed test left open goes with it


def filled(disk: Path) -> Path:
    """By a program of somebody else, to the last byte."""
    filler = disk / "filler"
    subprocess.run([sys.executable, "-c", FILLS, filler], check=True)
    assert os.statvfs(disk).f_bavail == 0
    return filler


def contents(folder: Path, names: list[str]) -> dict[str, bytes]:
    return {path.name + name: path.read_bytes() for name in names for path in sorted((folder / name).iterdir())}


def test_who_fills_the_disk_erases_no_evidence(disk: Path, zombiescope: Run) -> None:
    """The oldest segments hold what somebody did, who fills the disk to have them dropped."""
    folder, said = disk / "rec", disk.parent / "said"
    for _ in range(3):
        zombiescope("record", str(folder), "--for", "1s", expect=0)
    names = opened(str(folder)).segments
    evidence = contents(folder, names)
    with open(said, "w") as stderr, subprocess.Popen([COMMAND, "record", str(folder)], stderr=stderr) as process:
        try:
            until(lambda: list(folder.glob("*/head")))
            filler = filled(disk)
            until(lambda: said.read_text().count("No space left on device"))
            until(lambda: not list(folder.glob("*/head")) or len(opened(str(folder)).segments) > len(names))
            assert contents(folder, names) == evidence, "all that was there is there, byte for byte"
            filler.unlink()
            until(lambda: "the disk was full for" in said.read_text())
            until(lambda: "the disk was full for" in str(shown(zombiescope, folder)["troubles"]))
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    assert contents(folder, names) == evidence
    found = shown(zombiescope, folder)
    assert found["segments"] > len(names) and found["gaps"], "it goes on, and the gap is said"
    assert any("No space left on device: a part of the recording is lost" in it for it in found["troubles"])


def shown(zombiescope: Run, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zombiescope("info", str(folder), "--format", "json").stdout)
    return found


def test_who_starts_a_recorder_on_a_full_disk_drops_no_evidence(disk: Path) -> None:
    """The recorder starts again when the disk has been filled: what it has is not dropped for what it may have."""
    clock, folder = Clock(), disk / "rec"
    first = heads(folder, clock=clock, most_bytes=10**9)
    for number in range(4):
        fill_second(first, clock, number, 10_000)
        clock.passed += 60
    first.close()
    names = opened(str(folder)).segments
    evidence, filler = contents(folder, names), filled(disk)
    filler.write_bytes(filler.read_bytes()[: -(1 << 16)])  # enough for the recorder to begin
    again = heads(folder, clock=clock, most_bytes=10**9)
    for number in range(60):
        fill_second(again, clock, number, 1000)
        clock.passed += 2
    assert contents(folder, names) == evidence and again.most_bytes < 10**7
    filler.unlink()
    clock.passed += 60
    fill_second(again, clock, 61, 1000)
    again.end()
    assert again.most_bytes > 10**7, "there is room again"
    again.close()


def test_who_lets_room_come_and_go_makes_few_segments(disk: Path) -> None:
    """The disk has a little room every other second: a recording of fifty thousand segments would not be opened."""
    clock, folder = Clock(), disk / "rec"
    recorder = heads(folder, clock=clock)
    filler = filled(disk)
    for number in range(300):
        os.truncate(filler, filler.stat().st_size - (128 << 10))
        fill_second(recorder, clock, number, 1000)  # 48 KB, and then it is full again
        with open(filler, "ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        fill_second(recorder, clock, number, 1000)
        clock.passed += 2
    assert len(recorder.segments()) < 30, "in ten minutes"
    recorder.close()
