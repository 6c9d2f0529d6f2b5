"""Draw docs/demo.svg: run the demo on a terminal, keep what it printed and when (docs/demo.cast), and play it again.

The .cast is asciinema's (version 2): `asciinema play docs/demo.cast` shows it at its own pace. In the SVG long waits
are cut short; nothing else is. `python docs/demo.py --again` draws anew from the .cast.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 118, 34
SHORTEST, LONGEST = 0.08, 1.2  # seconds between two lines in the picture: a report comes at once, and is to be read
HOLD = 8.0  # seconds that the end stays before it begins anew
HIGH, WIDE, MARGIN = 17, 8.0, 12  # pixels
CAST, SVG = (Path(__file__).resolve().parent / name for name in ("demo.cast", "demo.svg"))
PLAIN = "#d8dee4"


def main() -> None:
    if "--again" not in sys.argv:
        CAST.write_text("\n".join(json.dumps(it) for it in recorded()) + "\n")
    _, *events = map(json.loads, CAST.read_text().splitlines())
    SVG.write_text(drawn([(at, text) for at, _, text in events]))


def recorded() -> list[object]:
    mine, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    argv = [sys.executable, "-m", "zombiescope.lab._demo"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    began = time.monotonic()
    events: list[object] = [{"version": 2, "width": COLUMNS, "height": ROWS, "title": "make demo"}]
    while True:
        try:
            # Where this project lies is nobody's business.
            text = os.read(mine, 1 << 16).decode(errors="replace").replace(f"{CAST.parents[1]}/", "")
        except OSError:  # the other side has closed
            break
        events.append([round(time.monotonic() - began, 3), "o", text])
    if process.wait():
        raise SystemExit(f"the demo ended with {process.returncode}")
    return events


def lines(events: list[tuple[float, str]]) -> list[tuple[float, Text]]:
    """Each line with the time at which it was whole; of one that was written over, what stood there last."""
    found, rest = [], ""
    for at, text in events:
        *whole, rest = (rest + text.replace("\r\n", "\n")).split("\n")
        found += [(at, line.split("\r")[-1].replace("\x1b[K", "")) for line in whole]
    texts = ((at, Text.from_ansi(line)) for at, line in found)
    return [(at, part) for at, text in texts for part in text.divide(range(COLUMNS, len(text), COLUMNS))]


def drawn(events: list[tuple[float, str]]) -> str:
    told = lines(events)
    times, now, last = [], 0.0, told[0][0]
    for at, _ in told:
        now += min(max(at - last, SHORTEST), LONGEST)
        last = at
        times.append(now)
    length = now + HOLD
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)
    body = []
    for place, ((_, text), at) in enumerate(zip(told, times, strict=True)):
        spans, column = [], 0
        for segment in text.render(console):
            style = segment.style
            colour = style.color.get_truecolor().hex if style and style.color else PLAIN
            bold = ' font-weight="bold"' if style and style.bold else ""
            if segment.text.strip():
                x = MARGIN + (column + len(segment.text) - len(segment.text.lstrip())) * WIDE
                spans.append(f'<tspan x="{x:.0f}" fill="{colour}"{bold}>{escape(segment.text.strip())}</tspan>')
            column += segment.cell_length
        if spans:
            y = MARGIN + (place + 1) * HIGH
            later = f'<set attributeName="visibility" to="hidden" begin="t.begin" end="t.begin+{at:.2f}s"/>'
            body.append(f'<text y="{y}">{"".join(spans)}{later}</text>')
    steps = [(at, (place + 1 - ROWS) * HIGH) for place, at in enumerate(times) if place >= ROWS]
    keys = ";".join(f"{at / length:.4f}" for at, _ in [(0.0, 0), *steps])
    values = ";".join(f"0 {-up}" for _, up in [(0.0, 0), *steps])
    wide, high = MARGIN * 2 + round(COLUMNS * WIDE), MARGIN * 2 + ROWS * HIGH
    # One clock that begins anew by itself: all else is timed by it.
    clock = f'<animate id="t" attributeName="opacity" from="1" to="1" begin="0s;t.end" dur="{length:.2f}s"/>'
    scroll = (
        f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" begin="t.begin" '
        f'dur="{length:.2f}s" keyTimes="{keys}" values="{values}"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="monospace" font-size="13">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#22272e">{clock}</rect>\n'
        # Where nothing moves, the end is shown.
        f'<svg x="0" y="{MARGIN // 2}" width="{wide}" height="{high - MARGIN}">'
        f'<g style="white-space: pre" transform="translate(0 {-steps[-1][1]})">{scroll}\n'
        + "\n".join(body)
        + "\n</g></svg></svg>\n"
    )


if __name__ == "__main__":
    main()
