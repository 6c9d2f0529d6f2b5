"""Drop the cached pages of files that pin dying cgroups; within a budget, only of files that nobody misses."""

from __future__ import annotations

import fcntl
import os
import signal
from collections import Counter

from zombiescope.core import Unreadable, amount
from zombiescope.kernel.file_handles import Device, Handles, why_not
from zombiescope.kernel.memcg_records import Pin

_TRIES = 3  # of one file: a page may be locked or in write-back once; one that is read all the time always comes back


class PinningFiles:
    """Drops the cached pages of files that pin dying cgroups, a few times at most, and remembers the results."""

    def __init__(self, handles: Handles, most: int, budget: int | None = None) -> None:
        """`budget`: bytes of files that may be dropped in all, and only of files that no process writes to."""
        self._handles, self._most, self._budget = handles, most, budget
        self._tried: Counter[tuple[Device, int, int]] = Counter()
        self._refused: dict[tuple[Device, int, int], str] = {}

    @property
    def known(self) -> int:
        return len(self._tried)

    def forget(self, pin: Pin) -> str:
        """The file's path, or what is known of it, if its pages were dropped; "" if not, and `why` has the reason."""
        file = (pin.device, pin.inode, pin.generation)
        spent = len(self._tried) >= self._most and file not in self._tried
        if spent or file in self._refused or self._tried[file] >= _TRIES:
            return ""
        self._tried[file] += 1
        disk = self._handles.disk_of(pin.device, pin.inode)
        if disk and self._budget is not None:
            self._refused[file] = f"metadata on {disk}: every program that uses this disk would pay"
            return ""
        try:
            descriptor = os.open(disk, os.O_RDONLY | os.O_CLOEXEC) if disk else self._handles.open(*file)
        except (Unreadable, OSError) as no:
            self._refused[file] = no.why if isinstance(no, Unreadable) else f"{disk}: {no.strerror}"
            return ""
        # Dirty pages are never dropped, so they are written first. The kernel empties the batches of all CPUs by itself
        # if a page is still in one (generic_fadvise calls lru_add_drain_all), so one call is enough.
        try:
            if (
                self._tried[file] == 1
                and self._budget is not None
                and (much := self._too_much(descriptor, self._budget))
            ):
                self._refused[file] = much
                return ""
            # Writing all metadata of a disk would take too long; what the journal has written is already clean.
            if not disk:
                os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            # A whole path only if the kernel had the file's name in memory; else a part of it.
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            named = os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor))
            return f"metadata on {disk}" if disk else path if named else pin.where
        except OSError as error:
            self._refused[file] = why_not(error)
            return ""
        finally:
            os.close(descriptor)

    def _too_much(self, descriptor: int, budget: int) -> str:
        """Why dropping a file would hurt; empty if not, and then it is paid from the budget."""
        size = os.fstat(descriptor).st_size
        if size > budget:
            return f"{amount(size)}, more than the {amount(budget)} left to drop without disrupting anybody"
        if _written(descriptor):
            return "a process has it open for writing"
        self._budget = budget - size
        return ""

    def why(self, pin: Pin) -> str:
        """Why this page is still there."""
        file = (pin.device, pin.inode, pin.generation)
        if pin.kind == "shmem":
            return "only removing the file helps"
        if pin.kind != "page cache":
            return "not a page of a file"
        if pin.mapped:
            return "mapped: a running process uses it"
        tried = "still in use after it was dropped" if self._tried[file] else "not tried: the time budget was used up"
        return self._refused.get(file, tried)


def _written(descriptor: int) -> bool:
    """Whether any process has the file open for writing: then no read lease is given; one that is given is returned.

    Whoever opens the file for writing in between waits until then, some microseconds; the signal that tells us of it
    would end us, so it is ignored. A file system without leases answers with EINVAL: in doubt it is in use.
    """
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        signal.signal(signal.SIGIO, before)
    return False
