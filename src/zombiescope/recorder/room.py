"""Room for the next segment: the oldest go first, by age and by size; what cannot be removed is left and reported."""

from __future__ import annotations

import os
from collections.abc import Callable

from zombiescope.core import amount
from zombiescope.recorder.folder import Folder

ROOM = 0.9  # of the limit: dropping starts before it, since the next segment needs room
USUAL = 300.0  # seconds: how long a segment of an earlier run is taken to last
FIRST_RETRY, LAST_RETRY = 60.0, 3600.0  # seconds: what could not be removed is tried again, each time later


class Room:
    """Keeps a folder below its limits. Clocks that are set do not matter: lengths are added, not times compared."""

    def __init__(self, folder: Folder, *, seconds: float, most_bytes: int, monotonic: Callable[[], float]) -> None:
        self._folder, self._seconds, self.most_bytes, self._monotonic = folder, seconds, most_bytes, monotonic
        self._lengths: dict[str, float] = {}
        self._stuck: dict[str, tuple[str, float, float]] = {}  # why, when it is tried again, the pause after that
        self.dropped = 0
        self.full = ""  # why there cannot be any

    @property
    def stuck(self) -> list[str]:
        """One line for all that cannot be removed: the first with its reason."""
        if not self._stuck:
            return []
        name, (why, _, _) = min(self._stuck.items())
        return [f"{os.path.join(self._folder.path, name)} cannot be removed: {why}; newer segments are dropped instead"]

    def lasted(self, segment: str, seconds: float) -> None:
        self._lengths[segment] = seconds

    def make(self) -> None:
        """Called between two segments: none is being written."""
        sizes = {name: self._folder.size(name) for name in self._folder.segments()}
        self._stuck = {name: it for name, it in self._stuck.items() if name in sizes}
        removable = [name for name in sizes if name not in self._stuck or self._again(name)]
        while removable and (self._too_old(removable) or self._too_large(sizes, removable)):
            oldest = removable.pop(0)
            if self._removed(oldest):
                del sizes[oldest]
        # A little that is stuck does not matter: the newest segment may be larger than the limit on its own.
        held = sum(size for name, size in sizes.items() if name in self._stuck)
        too_large = sum(sizes.values()) > self.most_bytes and held > (1 - ROOM) * self.most_bytes
        self.full = f"{amount(sum(sizes.values()))} cannot be brought below --max-bytes" if too_large else ""

    def _too_old(self, names: list[str]) -> bool:
        """Those after the oldest hold all the hours that are to be kept."""
        return len(names) > 1 and sum(self._lengths.get(it, USUAL) for it in names[1:]) >= self._seconds

    def _too_large(self, sizes: dict[str, int], names: list[str]) -> bool:
        """The newest is kept whatever its size."""
        return len(names) > 1 and sum(sizes.values()) > ROOM * self.most_bytes

    def _again(self, name: str) -> bool:
        return self._monotonic() >= self._stuck[name][1]

    def _removed(self, name: str) -> bool:
        try:
            self._folder.remove(name)
        except OSError as error:
            _, _, pause = self._stuck.get(name, ("", 0.0, FIRST_RETRY))
            why = (error.strerror or str(error)).lower()
            self._stuck[name] = (why, self._monotonic() + pause, min(2 * pause, LAST_RETRY))
            return False
        self._stuck.pop(name, None)
        self._lengths.pop(name, None)
        self.dropped += 1
        return True
