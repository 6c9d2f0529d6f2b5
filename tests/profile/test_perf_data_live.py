"""perf.data of this machine, made a moment ago, against what `perf script` prints of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench._perf_script import compare

from zombiescope.cli._files import Asked
from zombiescope.cli._sources import opened
from zombiescope.profile.tree import planted

LOAD = """
import json, os, subprocess, time
end = time.monotonic() + 1.8
while time.monotonic() < end:
    json.loads(json.dumps([{"n": n, "s": str(n)} for n in range(2000)]))
    subprocess.run(["sh", "-c", "find /usr/bin | sort | head -1; head -c 300000 /dev/urandom | gzip"],
                   stdout=subprocess.DEVNULL)
"""


def record(*options: str) -> None:
    """`perf record` while something runs; it needs the kernel's leave, which not every machine gives."""
    # --buildid-mmap: perf 6.1 dies at the end of a capture in which a file has a build-id of more than 20 bytes.
    argv = ("perf", "record", "-q", "--buildid-mmap", "-F", "999", "-a", "-g", *options)
    done = subprocess.run((*argv, "--", sys.executable, "-c", LOAD), capture_output=True)
    if done.returncode:
        pytest.skip(f"perf record does not work here: {done.stderr.decode(errors='replace')[-200:]}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    return tmp_path_factory.mktemp("perf")


@pytest.mark.kernel  # programs of others that ended since, BPF among them, have no names any more
def test_samples_are_what_perf_script_prints(folder: Path) -> None:
    record("-o", f"{folder}/plain.data")
    capture = opened(f"{folder}/plain.data").capture
    found = compare(capture, f"{folder}/plain.data")
    assert found.samples > 1000
    assert (found.time_and_cpu, found.who, found.kernel) == (0, 0, 0), found
    assert found.leaf <= found.samples / 50, found  # 1 % over a minute; a few seconds are few distinct leaves


@pytest.mark.kernel
def test_packed_files_are_read(folder: Path) -> None:
    path = f"{folder}/packed.data"
    record("-z", "-o", path)
    capture = opened(path).capture
    found = compare(capture, path)
    assert (found.time_and_cpu, found.who, found.kernel) == (0, 0, 0), found


@pytest.mark.kernel
def test_rolling_files_open_as_one(folder: Path) -> None:
    rolling = folder / "rolling"
    rolling.mkdir()
    record("--switch-output=1s", "-o", f"{rolling}/perf.data")
    files = sorted(rolling.iterdir())
    assert len(files) >= 2
    whole = opened(str(rolling)).capture
    parts = [opened(str(file)).capture for file in files]
    assert len(whole) == sum(map(len, parts))
    assert (whole.at[1:] >= whole.at[:-1]).all()
    assert planted(whole).flame().all == sum(planted(it).flame().all for it in parts)
    assert len(opened(*map(str, files)).capture) == len(whole)


@pytest.mark.kernel
def test_of_several_events_binary_and_text_say_the_same(folder: Path) -> None:
    path, text = f"{folder}/several.data", f"{folder}/several.txt"
    record("-e", "cpu-clock,page-faults", "-o", path)
    with open(text, "wb") as out:
        subprocess.run(["perf", "script", "-i", path], stdout=out, stderr=subprocess.DEVNULL, check=True)
    for event, others in (("cpu-clock", ("page-faults",)), ("page-faults", ("cpu-clock",)), (None, ("page-faults",))):
        binary, printed = (opened(it, asked=Asked(event=event)).capture for it in (path, text))
        assert binary.origin.others == printed.origin.others == others
        assert binary.origin.measure == printed.origin.measure == (event or "cpu-clock")
        assert len(binary) > 10 and (binary.unit, len(binary)) == (printed.unit, len(printed))
        assert (binary.at // 1000).tolist() == (printed.at // 1000).tolist()  # text has microseconds


@pytest.mark.kernel
def test_a_folder_of_threads_opens_as_one_file(folder: Path) -> None:
    path = f"{folder}/threads.data"
    record("--threads", "-o", path)
    found = compare(opened(path).capture, path)
    assert found.samples > 1000 and (found.time_and_cpu, found.who, found.kernel) == (0, 0, 0), found


@pytest.mark.kernel
def test_a_chosen_clock_gives_wall_clock_times(folder: Path) -> None:
    before = time.time()
    record("-k", "mono", "-o", f"{folder}/mono.data")
    capture = opened(f"{folder}/mono.data").capture
    assert capture.clock == "unix" and before < capture.start / 1e9 < capture.end / 1e9 < time.time()
