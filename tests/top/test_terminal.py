"""`top` as a person uses it: in a terminal of tmux, by its keys, resized, closed; and without a terminal."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND
from tests.terminal import PATIENCE, Terminal

pytestmark = [pytest.mark.beside, pytest.mark.e2e]  # it waits for the screen, mostly


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("tmux") is None:
        pytest.skip(f"{CANNOT}tmux is not installed")
    return tmp_path


@pytest.fixture(params=[(80, 24), (100, 35)], ids=lambda it: f"{it[0]}x{it[1]}")
def sample(folder: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(folder, *request.param, str(COMMAND), "top", "--sample")
    yield terminal
    terminal.close()


def test_a_person_looks_around_in_it(sample: Terminal) -> None:
    shown = sample.until("PROBLEM", "crash_looping_unit", "FINDINGS", "PROCESSES", "zslab-walker")
    assert "RECORDED" in shown and "sample-node" in shown and "dying cgroups 20," in shown
    sample.press("f")
    sample.press("Enter")
    assert "ecs.service" in sample.until("what it led to", "zombie_cgroups")
    sample.press("Escape")
    sample.until("PROCESSES")
    sample.press("c")
    sample.press("Enter")
    sample.until("of this core", "css_rstat_flush")
    sample.press("Escape")
    sample.press("p")
    sample.press("Enter")
    sample.until("zslab-walker", " s in")
    sample.press("Escape")
    sample.press("?")
    sample.until("a minute back")
    sample.press("x")
    sample.press("q")
    assert sample.code() == 0
    assert "Traceback" not in sample.errors.read_text()


def test_back_in_time_the_fault_has_not_begun(sample: Terminal) -> None:
    sample.until("PROBLEM", "driver_reset")
    sample.press("Home")
    # At its start nothing walks or resets yet.
    sample.until("RECORDED", "FINDINGS", without="driver_reset")
    sample.press("End")
    sample.until("driver_reset")
    sample.press("Home")
    sample.press(".", ".", ".")
    sample.press("Space")
    sample.until("PLAYING")
    sample.press("Space")
    sample.until("RECORDED")
    sample.press("q")
    assert sample.code() == 0


def test_any_size_does(folder: Path) -> None:
    terminal = Terminal(folder, 80, 24, str(COMMAND), "top", "--sample")
    try:
        terminal.until("PROBLEM")
        terminal.resize(30, 5)
        terminal.until("too small")
        terminal.resize(200, 60)
        shown = terminal.until("PROCESSES", "q quit")
        assert len(shown.splitlines()) == 60
        terminal.resize(40, 10)
        terminal.until("CORES", without="too small")
        terminal.press("q")
        assert terminal.code() == 0
        assert "Traceback" not in terminal.errors.read_text()
    finally:
        terminal.close()


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_it_ends_without_a_traceback_when_it_is_ended(folder: Path, how: signal.Signals) -> None:
    terminal = Terminal(folder, 80, 24, str(COMMAND), "top", "--sample")
    try:
        terminal.until("PROBLEM")
        os.kill(terminal.pid(), how)
        assert terminal.code() == 0
        assert terminal.errors.read_text().count("\n") <= 1
    finally:
        terminal.close()


def test_it_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        environ = os.environ | {"TERM": "xterm"}
        process = subprocess.Popen(
            [COMMAND, "top", "--sample"], stdin=its, stdout=its, stderr=file, env=environ, start_new_session=True
        )
    os.close(its)
    seen = b""
    while b"CORES" not in seen:
        seen += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in errors.read_text()


def test_without_a_terminal_it_prints_one_screen() -> None:
    done = subprocess.run([COMMAND, "top", "--sample"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and all(len(it) <= 100 for it in lines)
    assert lines[1].startswith("PROBLEM") and "\x1b" not in done.stdout


def test_a_live_node_records_for_as_long_as_it_runs(folder: Path) -> None:
    """What it records into is gone afterwards, and so is the recorder."""
    before = set(Path("/tmp").glob("zombiescope-top-*"))
    terminal = Terminal(folder, 100, 35, str(COMMAND), "top")
    try:
        terminal.until("LIVE", "CORES", "cpu 0")
        terminal.press("Space")
        terminal.until("PAUSED")
        terminal.press("Space")
        terminal.until("LIVE")
        terminal.press("q")
        assert terminal.code() == 0, terminal.errors.read_text()
    finally:
        terminal.close()
    assert set(Path("/tmp").glob("zombiescope-top-*")) <= before


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--recording", "/nonexistent"), "no such folder"),
        (("--recording", "/etc"), "not a recording"),
        (("--sample", "--at", "05:10"), "nothing at that time"),
    ],
)
def test_mistakes_are_one_line(argv: tuple[str, ...], says: str) -> None:
    done = subprocess.run([COMMAND, "top", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1
