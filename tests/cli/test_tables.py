"""Lists: a table on a terminal, tab-separated lines in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest
from tests.conftest import COMMAND

from zombiescope.__main__ import main
from zombiescope.cli._tables import write_table
from zombiescope.cli.explain import ROOMS
from zombiescope.members.rooms import names


def on_terminal(*argv: str, width: int = 80) -> list[str]:
    """What a command prints on a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environ = {name: it for name, it in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([COMMAND, *argv], stdout=its, stdin=its, env=environ | {"NO_COLOR": "1", "TERM": "dumb"})
    os.close(its)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that a terminal has been closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert process.wait(60) == 0
    return said.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.e2e
@pytest.mark.parametrize(("argv", "heading"), [(("lab", "list"), "scenario"), (("explain",), "name")])
def test_on_a_terminal_it_is_a_table_that_fits(argv: tuple[str, ...], heading: str) -> None:
    lines = on_terminal(*argv)
    assert lines[0].startswith(heading)
    assert not any("\t" in it for it in lines)
    assert all(len(it) <= 80 for it in lines)


def test_in_a_pipe_it_is_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("a", "b"), [("[red]x", 1), ("y", 2.5)])
    write_table(("a", "b"), [("z", 3)], heading_in_pipe=True)
    assert capsys.readouterr().out == "[red]x\t1\ny\t2.5\na\tb\nz\t3\n"


def test_explain_describes_every_name_that_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {room for room, _, _ in rows} == set(ROOMS)
    assert len(rows) == sum(len(names(room)) for room in ROOMS)
    for room, name, summary in rows:
        assert len(summary) > 10, f"{room}/{name} has no line"
        assert main(["explain", name]) == 0
        assert summary in " ".join(capsys.readouterr().out.split())
