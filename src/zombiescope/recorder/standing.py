"""How long a process stood still: who runs, or waits for a core, does not hang, however slow or full the node is.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

from contextlib import suppress


class Standing:
    """Of the first thread of a process, from when this was made; asked now and then."""

    def __init__(self, pid: int, now: float) -> None:
        self._pid, self.since = pid, now
        self._moved, self._before = now, _at_work(pid)

    def still(self, now: float) -> float:
        """Seconds since it was last seen to run, or to wait for a core."""
        at_work = _at_work(self._pid)
        if at_work > self._before or _is_runnable(self._pid):
            self._moved = now
        self._before = at_work
        return now - self._moved


# 8132411 1094522 41
def _at_work(pid: int) -> int:
    """Nanoseconds that it has run, or waited for a core until it had one; 0 if that is not known."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/schedstat", "rb") as file:
        ran, waited, _ = file.read(200).split()
        return int(ran) + int(waited)
    return 0


# 4711 (name) R 1 …
def _is_runnable(pid: int) -> bool:
    """Now. A wait for a core is counted only when it is over."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read(4096).rpartition(b")")[2].split()[:1] == [b"R"]
    return False
