"""How many programs each process has begun: the same address is another function after an exec."""

from __future__ import annotations

from bisect import insort

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.perf_changes import Comm, Fork
from zombiescope.recorder.perf_records import Parsed
from zombiescope.recorder.places import places

MOST = 1 << 17  # processes: more than fit into one head of ours


class Programs:
    """Of all processes in a head, as far as its records say."""

    def __init__(self) -> None:
        self._begun: dict[int, list[int]] = {}  # when each process was forked, or began a program

    def begun(self, parsed: Parsed) -> npt.NDArray[np.int64]:
        """How many the process of each sample had begun by then."""
        for it in parsed.records:
            if (isinstance(it, Fork) and it.pid != it.parent_pid) or (isinstance(it, Comm) and it.execed):
                begun = self._begun.get(it.pid)
                if begun is not None:
                    insort(begun, it.time_ns)
                elif len(self._begun) < MOST:
                    self._begun[it.pid] = [it.time_ns]
        found = np.zeros(len(parsed.pid), np.int64)
        for pid, own in places(parsed.pid, self._begun):
            found[own] = np.searchsorted(self._begun[pid], parsed.time_ns[own], side="right")
        return found
