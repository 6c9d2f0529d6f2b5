"""How often to look: as asked while there is CPU time saved for it, else as often as the budget allows."""

from __future__ import annotations

import os

# Of the budget, for looks, whatever the recorder takes: a look of 0.28 s in 70 s at 1 %.
LEAST = 0.4
FIRST = 10.0  # seconds after the start: the recorder has some samples of everything then
# Seconds of the looks' share that are saved, or owed. A look costs most when the node is in trouble, and then it must
# come soon: at 1 % this is 7 s of CPU, seven to twenty dear looks a minute apart.
SAVED = 1800.0


class Account:
    """CPU seconds for looks: their share of the budget comes in, each look goes out. It begins half full."""

    def __init__(self, now: float) -> None:
        self._at = now
        self._saved: float | None = None

    def looked(self, now: float, look: float, *, others: float, budget: float) -> None:
        """A look took `look` seconds of CPU; all else of the agent takes `others`, a share of a core."""
        self._share = max(budget - others, LEAST * budget)
        most = SAVED * self._share
        saved = most / 2 if self._saved is None else self._saved
        self._saved = max(min(saved + (now - self._at) * self._share, most) - look, -most)
        self._at = now

    def pause(self, every: float, window: float, look: float) -> float:
        """Seconds from the last look to the next, which may cost as much as the last.

        Never more than half of the window: each moment is looked at twice.
        """
        assert self._saved is not None, "asked before the first look"
        return max(every, min((look - self._saved) / self._share, window / 2))


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that ended; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / float(os.sysconf("SC_CLK_TCK"))


def memory_of(pid: int) -> int:
    """Bytes of a process, its part of shared pages (PSS); 0 if that cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
