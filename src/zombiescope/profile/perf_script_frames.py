"""A frame of a text of `perf script`: `function+0x12 (file)`, each of which may hold blanks and brackets."""

from __future__ import annotations

import re

from zombiescope.profile.gathering import named
from zombiescope.profile.kernel_files import UNKNOWN

VAGUE = (b"[unknown]", b"inlined")  # what perf prints in place of a file if there is none
_OFFSET = re.compile(rb"\+0x[0-9a-fA-F]{1,16}$")


def name_and_file(text: bytes) -> tuple[str, str]:
    """`function+0x12 (file)`: both may hold blanks and brackets, so the file's bracket is found from the end."""
    name, file = text, b""
    if text.endswith(b")"):
        at = text.rfind(b" (")
        if b")" in text[at:-1]:  # `/tmp/x (deleted)`, or `operator()(int)` and no file at all
            at = _opening(text)
        if at >= 0 or text.startswith(b"("):
            name, file = text[: max(at, 0)], text[at + 2 : -1]
    if b"+0x" in name:
        name = _OFFSET.sub(b"", name)
    return named(name.strip()) or UNKNOWN, UNKNOWN if not file or file in VAGUE else named(file)


def _opening(text: bytes) -> int:
    """Where the blank is before the bracket that the last one closes; -1 where there is none."""
    depth = 0
    for at in range(len(text) - 1, max(len(text) - 4097, 0), -1):  # a path is 4,095 bytes at most
        depth += (text[at] == 0x29) - (text[at] == 0x28)
        if not depth:
            return at - 1 if text[at - 1] == 0x20 else -1
    return text.rfind(b" (")  # a name with an odd bracket of its own
