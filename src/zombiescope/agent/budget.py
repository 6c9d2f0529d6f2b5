"""How often to look: as asked, or less often where the looks would cost more than the budget leaves for them."""

from __future__ import annotations

import os

LEAST = (
    0.4  # of the budget is for looks, whatever the recorder takes: on small nodes a look in 70 s, an event within 90 s
)
FIRST = 10.0  # seconds after the start: the recorder has some samples of everything then


def pause(every: float, window: float, *, look: float, others: float, budget: float) -> float:
    """Seconds from one look to the next. `look`: CPU seconds of the last one; `others`: share of a core of the rest.

    Never more than half of the window: each moment is looked at twice.
    """
    share = max(budget - others, LEAST * budget)
    return max(every, min(look / share, window / 2))


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
