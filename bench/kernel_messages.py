"""Understanding the kernel's log: lines a second of an ordinary log, beside one expression of all patterns."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from zombiescope.knowledge.kernel_messages import _formats, recognise

LINES = 100_000
LEAST = 100_000.0  # lines a second: an hour of a node that logs all the time is read within a breath
PEER = 10_000  # lines are enough to time the slow peer


def ratios() -> Iterator[tuple[str, float, float, str]]:
    lines = _log()
    recognise("the first line pays for reading the table")
    ours = _pace(lines, lambda line: recognise(line) is not None)
    yield f"{LEAST:,.0f} lines a second against ours", LEAST / ours, 1.0, f"{ours:,.0f} lines a second"
    patterns = [re.sub(r"\?P<\w+>", "?:", one.pattern) for _, formats in _formats() for one in formats]
    alternation = re.compile("|".join(patterns), re.ASCII)
    peer = _pace(lines[:PEER], lambda line: alternation.search(line) is not None)
    yield "time a line against one expression of all", peer / ours, 0.5, f"{peer:,.0f} lines a second for that"


def _log() -> list[str]:
    """This machine's own log, again and again, or a plain one where it may not be read."""
    text = ""
    if shutil.which("dmesg"):
        text = subprocess.run(["dmesg"], capture_output=True, check=False).stdout.decode("utf-8", "replace")
    few = text.splitlines() or ["[    1.0] usb 1-1: new full-speed USB device number 2 using xhci_hcd"]
    return (few * (LINES // len(few) + 1))[:LINES]


def _pace(lines: list[str], understood: Callable[[str], bool]) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for line in lines:
            understood(line)
        best = min(best, time.process_time() - started)
    return len(lines) / best
