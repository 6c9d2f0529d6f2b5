"""Python that tells perf the names of its functions: the samples of each are as many as `perf script` prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.pythons import HAS_DUMPS, HAS_FRAMES, python_that

from zombiescope.cli._sources import opened

pytestmark = [pytest.mark.kernel, pytest.mark.beside]
WORK = """
import os
print(os.getpid())
def inner():
    return sum(i * i for i in range(20000))
def outer():
    for _ in range(700):
        inner()
outer()
"""
FUNCTIONS = re.compile(r"py::(inner|outer):")


@contextmanager
def recorded(folder: Path, python: str, option: str, *perf: str) -> Iterator[str]:
    """The capture; what Python wrote for it stands in /tmp, and is removed."""
    if not shutil.which("perf"):
        pytest.skip(CANNOT + "perf is not installed")
    (folder / "work.py").write_text(WORK)
    path = str(folder / "perf.data")
    argv = ["perf", "record", "-q", "--buildid-mmap", "-F", "499", *perf, "-o", path, python, "-X", option, "work.py"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    try:
        if done.returncode:
            pytest.skip(CANNOT + f"perf record: {done.stderr[-200:]}")
        yield path
    finally:
        for pid in re.findall(r"^\d+$", done.stdout, re.MULTILINE):
            for pattern in (f"perf-{pid}.map", f"jit-{pid}.dump", f"jitted-{pid}-*.so"):
                for left in Path("/tmp").glob(pattern):
                    left.unlink()


def printed(path: str) -> tuple[int, Counter[str]]:
    """How many samples perf prints, and in how many of them each function is."""
    argv = ["perf", "script", "--no-inline", "-F", "comm,tid,time,ip,sym", "-i", path]
    samples = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\n\n")
    samples = [it for it in samples if it.strip()]
    return len(samples), Counter(name for it in samples for name in set(FUNCTIONS.findall(it)))


def read(path: str) -> tuple[int, Counter[str]]:
    capture = opened(path).capture
    in_stack = [set(FUNCTIONS.findall("\n".join(capture.frames.names(it)))) for it in range(len(capture.frames))]
    return len(capture), Counter(name for stack in capture.stack.tolist() for name in in_stack[stack])


def test_by_frame_pointers_and_a_map(tmp_path: Path) -> None:
    python = python_that(HAS_FRAMES)
    if python is None:
        pytest.skip(CANNOT + "no Python from 3.12 on is built with frame pointers")
    with recorded(tmp_path, python, "perf", "-g") as path:
        assert read(path) == printed(path)
        assert min(read(path)[1].values()) > 50


def test_by_tables_that_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`perf inject --jit` makes a file of each function, with its name and the table to unwind it by."""
    python = python_that(HAS_DUMPS)
    if python is None:
        pytest.skip(CANNOT + "no Python from 3.13 on")
    monkeypatch.setenv("HOME", str(tmp_path))  # perf inject keeps its files there
    made = f"{tmp_path}/with_names.data"
    with recorded(tmp_path, python, "perf_jit", "-k", "mono", "--call-graph", "dwarf,16384") as path:
        done = subprocess.run(["perf", "inject", "--jit", "-i", path, "-o", made], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(CANNOT + f"perf inject: {done.stderr[-200:]}")
        (samples, theirs), (read_samples, ours) = printed(made), read(made)
    assert read_samples == samples > 100
    if not theirs:
        pytest.skip(CANNOT + "perf names no function of this Python")
    assert ours["inner"] >= theirs["inner"] > 50 and ours["outer"] >= theirs["outer"]
