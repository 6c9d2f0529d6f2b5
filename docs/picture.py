"""Draw docs/report.svg: run the README's first command as on a terminal, keep what it printed."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 110, 46  # what a reader takes in at one glance; the rest of the report follows in a terminal
# rich's own frame, without the web font that it would fetch.
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve"
viewBox="0 0 {terminal_width} {terminal_height}">
<style>.{unique_id}-matrix {{ font: {char_height}px monospace; line-height: {line_height}px; white-space: pre }}
{styles}</style><defs>{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="#292929"/>
<g transform="translate(9, 9)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    argv = ["diagnose", "--sample"]
    printed = on_a_terminal([sys.executable, "-m", "zombiescope", *argv])
    # A little wider and higher than the text: fonts differ.
    console = Console(record=True, width=COLUMNS + 3, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ zombiescope {' '.join(argv)}", "bold"))
    lines = [line for text in Text.from_ansi(printed).split("\n") for line in text.wrap(console, COLUMNS)]
    for line in [*lines[:ROWS], Text()]:
        console.print(line)
    (Path(__file__).parent / "report.svg").write_text(console.export_svg(title="zombiescope", code_format=FRAME))


def on_a_terminal(argv: list[str]) -> str:
    mine, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "TZ": "UTC"}
    process = subprocess.Popen(argv, stdout=theirs, stderr=subprocess.DEVNULL, env=env)
    os.close(theirs)
    printed = b""
    while True:
        try:
            printed += os.read(mine, 1 << 16)
        except OSError:  # the other side has closed
            break
    process.wait()
    return printed.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()
