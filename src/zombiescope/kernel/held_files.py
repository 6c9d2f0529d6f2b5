"""Short files of processes, held open from one sample to the next: reading one again takes 4 µs, opening it first 9 µs.

Overhead: 6 KB of kernel memory for each file that is held (seq_file keeps a page), at most `MOST` of them.
Kernel: a held file of /proc/PID belongs to that process, not to its number: when the process is gone it gives ESRCH
    (get_proc_task() in fs/proc/internal.h), also if another has its number now. It keeps a struct pid, never a task.
"""

from __future__ import annotations

import os
import resource

from zombiescope.core.errors import Unreadable
from zombiescope.core.host import Host, why
from zombiescope.kernel.closing import Closing

MOST = 512
SHARE = 8  # of the files that this process may open, one in so many: rings, pipes and other probes need theirs
LONGEST = 4096  # bytes of one of them; /proc/PID/stat has some 350


class HeldFiles(Closing):
    """Files of one probe. Not for use by two threads at once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = MOST if allowed == resource.RLIM_INFINITY else min(MOST, allowed // SHARE)
        self._most = room if host.live else 0  # a recorded root does not change: it is read once
        self._before: dict[str, int] = {}  # not read in this sample yet
        self._now: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """What it holds; the first ones that are asked for stay open."""
        handle = self._before.pop(path, None)
        if handle is None and len(self._now) + len(self._before) >= self._most:
            return self.host.read_short(path)
        try:
            if handle is not None:
                try:
                    content = os.pread(handle, LONGEST, 0)
                    self._now[path] = handle
                    return content
                except OSError:
                    os.close(handle)
            handle = self.host.opened(path)
            try:
                content = os.pread(handle, LONGEST, 0)
            except OSError:
                os.close(handle)
                raise
            self._now[path] = handle
            return content
        except OSError as error:
            raise Unreadable(path, why(error)) from error

    def sampled(self) -> None:
        """A sample is complete: what was not read in it is closed."""
        self._close(self._before)
        self._before, self._now = self._now, {}

    def close(self) -> None:
        self._close(self._before)
        self._close(self._now)

    @staticmethod
    def _close(held: dict[str, int]) -> None:
        while held:
            os.close(held.popitem()[1])
