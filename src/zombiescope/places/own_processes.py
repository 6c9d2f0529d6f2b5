"""Which processes are ours: a command, or the agent with its recorder, and all that these have started.

A program that uses our library is not ours. Standard library only: the capture process imports this.
"""

from __future__ import annotations

import os
from contextlib import suppress

MOST = 256
_begun: set[int] = set()


def begin(*pids: int) -> None:
    """These are commands of ours."""
    _begun.update(pids)


def family() -> list[int]:
    """They and their descendants, as they are now."""
    found = sorted(_begun)
    for pid in found:  # it grows
        found += [it for it in children(pid) if it not in found][: MOST - len(found)]
    return found


def children(pid: int) -> list[int]:
    """What a process has started, and is there; nothing, where the kernel does not tell."""
    found = list[int]()
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found
