"""A look at a live machine does without Arrow, which is for the disk: 30 MB and 70 ms that nobody waits for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = "import sys; sys.modules['pyarrow'] = None; from zombiescope.__main__ import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("argv", [("census",), ("diagnose", "--seconds", "1")])
def test_a_look_needs_no_arrow(argv: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, *argv, "--format", "json"], capture_output=True, text=True)
    assert isinstance(json.loads(done.stdout or "null"), dict), done.stderr
