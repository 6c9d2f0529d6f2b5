"""The paths of the cgroups that were sampled, written once per segment: later they may be gone, and only a number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zombiescope.core import Host, Reading
from zombiescope.kernel.cgroup_ids import CgroupIds
from zombiescope.recorder.layout import CGROUP
from zombiescope.recorder.sampling import Notes

MOST = 2_000  # per segment: 15 µs each to find, so 30 ms in two minutes, however fast containers come and go


class CgroupPaths:
    """Remembers what was written in this segment; a context manager."""

    def __init__(self, host: Host) -> None:
        self._ids = CgroupIds(host)
        self._segment = -1
        self._asked: set[int] = set()

    def tell(self, sink: Notes, cgroups: npt.NDArray[np.uint64], at: float) -> None:
        """Write the paths of cgroups that are new in this segment; one that is gone by now has none."""
        if sink.began != self._segment:
            self._segment = sink.began
            self._asked.clear()
        fresh = sorted(set(np.unique(cgroups).tolist()) - self._asked - {0})
        for number in fresh[: MOST - len(self._asked)]:
            self._asked.add(number)
            path = self._ids.path(number)
            if path is not None:
                source = f"$ find {self._ids.mount} -inum {number}"
                sink.add(Reading(what=CGROUP, subject=f"cgroup:{path}", value=number, at=at, source=source))

    def __enter__(self) -> CgroupPaths:
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.__exit__()
