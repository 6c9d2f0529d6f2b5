"""FlameScope's way to a heatmap: the text of `perf script`, read line by line in Python.

Its source is no part of this project. Where it is not at hand a plain reader stands in its place, which does the least
that such a reader has to do: one expression a line, and one for each stack.
"""

from __future__ import annotations

import sys

_STAND_IN = r"""
import re, sys
head, idle = re.compile(r"\s(\d+\.\d+): .*?:"), re.compile(r"^\s*swapper.*(cpu_?idle|safe_halt)", re.DOTALL)
times, stack, at = [], "", None
for line in open(sys.argv[1]):
    if line.startswith("#"):
        continue
    found = head.search(line)
    if found is None:
        stack += line
        continue
    if at is not None and not idle.search(stack):
        times.append(at)
    at, stack = float(found[1]), line
if at is not None and not idle.search(stack):
    times.append(at)
"""
# Its own function for reading times out of the text. What it does before and after (the kind of file, the cells) is
# left out: that needs more packages, and is in its favour.
_FLAMESCOPE = """
import sys, types
sys.path.insert(0, sys.argv[2])
files = types.ModuleType("app.common.fileutil")
files.get_file = open
app = types.ModuleType("app")
app.__path__ = [sys.argv[2] + "/app"]
sys.modules |= {"app": app, "app.common": types.ModuleType("app.common"), "app.common.fileutil": files}
from app.perf.heatmap import perf_read_offsets
perf_read_offsets(sys.argv[1])
"""


def text_reader(text: str, flamescope: str | None) -> tuple[str, ...]:
    """The command that reads all times out of a file of text."""
    if flamescope:
        return (sys.executable, "-c", _FLAMESCOPE, text, flamescope)
    return (sys.executable, "-c", _STAND_IN, text)
