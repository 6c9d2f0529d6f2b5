"""What the kernel refuses to a process that has given something up: asked in a process of its own."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes, os, struct
from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf, memcg_walk
{before}
try:
    {ask}
except Unreadable as no:
    print(no)
"""


def why_not(before: str, ask: str) -> str:
    """Why it could not be read, in our words; nothing, if it could."""
    argv = [sys.executable, "-c", SCRIPT.format(before=before, ask=ask)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
