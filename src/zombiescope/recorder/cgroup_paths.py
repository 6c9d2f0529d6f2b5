"""The paths of the cgroups that were sampled: later they may be gone, and only a number."""

from __future__ import annotations

from zombiescope.core import Host
from zombiescope.core.commands import shown_by
from zombiescope.kernel.cgroup_ids import CgroupIds

MOST = 2_000  # per segment: 15 µs each to find, so 30 ms in two minutes, however fast containers come and go


class CgroupPaths:
    """Finds cgroups by id, so many and no more; a context manager."""

    def __init__(self, host: Host) -> None:
        self._ids = CgroupIds(host)
        self._left = MOST
        self.left_out = 0  # beyond that

    def found(self, number: int) -> tuple[str | None, str]:
        """The path, None for one that is gone by now; and how to find it oneself."""
        path = self._ids.path(number) if self._left > 0 else None
        self.left_out += self._left <= 0
        self._left -= 1
        return path, shown_by("find", self._ids.mount, "-inum", str(number))

    def __enter__(self) -> CgroupPaths:
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.__exit__()
