"""The six golden reports on a real terminal: as wide as it is, and the answer within its first screen."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.outputs.reports import GOLDEN, REPORTS
from tests.terminal import Terminal

pytestmark = pytest.mark.beside  # it waits for the terminal, mostly


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 35)], ids=lambda it: str(it))
def test_golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    """ZOMBIESCOPE_GOLDEN=write writes those of 80 columns anew; those of 100 are the golden files of test_text."""
    if shutil.which("tmux") is None:
        pytest.skip(f"{CANNOT}tmux is not installed")
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("TZ", "UTC")
    terminal = Terminal(tmp_path, width, height, sys.executable, "-m", "tests.outputs.reports", stays=True)
    try:
        assert terminal.code() == 0, terminal.errors.read_text()
        terminal.until("== end")
        parts = re.split(r"^== (\S+)\n", terminal.all(), flags=re.MULTILINE)
    finally:
        terminal.close()
    told = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(told) == [*REPORTS, "end"]
    for name in REPORTS:
        said = told[name].rstrip("\n") + "\n"
        path = GOLDEN / (f"{name}.txt" if width == 100 else f"{width}-columns/{name}.txt")
        if os.environ.get("ZOMBIESCOPE_GOLDEN") == "write" and width != 100:
            path.parent.mkdir(exist_ok=True)
            path.write_text(said)
        assert said == path.read_text(), name
        # One line is the prompt's, one the command's.
        seen = said.splitlines()[: height - 2]
        answer = next(place for place, line in enumerate(seen) if re.match(r"PROBLEM|OK|NOT SURE", line))
        assert answer <= 2, f"{name}: the answer comes first"
        fixed = not said.startswith("OK") and "PROBLEM" in said
        assert not fixed or any(line.startswith("  next") for line in seen), f"{name}: what to do next is on the screen"
