"""The heads of a recording on disk: one after the other, bounded in time and bytes, the oldest segment dropped first.

A disk that is full keeps what is there, and what is new is lost: who fills it would else erase the evidence.
All that touches the disk is here and runs in one thread, so that a disk that does not answer stops nothing else. A
kill -9 loses what was not handed over yet: two seconds. A crash of the machine may lose what was not synced: five.
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from zombiescope.core import amount, lasting
from zombiescope.recorder.folder import Folder
from zombiescope.recorder.full_disk import FullDisk
from zombiescope.recorder.head import MAGIC
from zombiescope.recorder.kernel_table import KernelTable
from zombiescope.recorder.layout import FORMAT, HEAD_FILE, META
from zombiescope.recorder.room import ROOM, Room
from zombiescope.recorder.settling import BEHIND, TOGETHER, Settling

SYNC = 5.0  # seconds between two fdatasync: each costs some ms of a disk that others need
MOST_TROUBLES = 20  # distinct ones that are kept
MOST_WAITING = 64 << 20  # bytes that may wait for a disk that does not answer: some minutes
LAST_WAIT = 20.0  # seconds at the end, for the last heads to be settled
OF_DISK = 0.9  # of what the disk has room for when recording begins: a limit beyond it would end in a full disk
LARGEST = 48 << 20  # bytes of a head: it is read in one piece
WAITING_SHARE = 0.125  # of the limit, for heads that wait to be settled: each is ten times as large as what it becomes
_AT_ONCE = 1000  # pieces of one writev(2)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Heads:
    """A folder that is being recorded into. One recorder at a time."""

    def __init__(
        self,
        folder: str,
        meta: dict[str, Any],
        *,
        hours: float,
        most_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
        settles: bool = True,
        settle_late: float = 0.0,
    ) -> None:
        self._monotonic = monotonic
        self._folder = Folder(folder)
        with ExitStack() as undo:
            undo.callback(self._folder.close)
            self._folder.write(META, json.dumps({"format": FORMAT, **meta}, indent=1).encode())
            undo.pop_all()
        self.troubles: list[str] = []  # what could not be written, removed or settled, and why; each once
        self.happened: list[str] = []  # those that are not in the recording yet: their writer takes them out
        self._wanted, self.most_bytes = most_bytes, min(most_bytes, self._possible)
        if self.most_bytes < most_bytes:
            self._trouble(f"the disk has room for {amount(self.most_bytes)} of --max-bytes: so much is kept")
        self._room = Room(self._folder, seconds=hours * 3600, most_bytes=self.most_bytes, monotonic=monotonic)
        boot_id = str(meta.get("boot_id", ""))
        self._kernel_table = KernelTable(self._folder, boot_id, self.most_bytes, monotonic)
        self._settling = Settling(self._folder.path, settle_late, together(self.most_bytes)) if settles else None
        self._number = -1  # of the head that is being written
        self._segment, self._handle, self._head_size = "", -1, 0
        self._began = self._synced = 0.0
        self.size = self.stored  # on disk, about: what settle saves is counted when the next head begins
        self.lost = -1  # the number of a head of which a part could not be written: it ends there
        self._full_disk = FullDisk(monotonic)
        if self._settling is not None:
            for stale in self._folder.unsettled():  # of a recorder that was killed
                self._settling.add(stale)

    @property
    def dropped(self) -> int:
        """Segments dropped, the oldest first."""
        return self._room.dropped

    @property
    def full(self) -> str:
        """Why recording cannot go on within the limit; empty if it can."""
        return self._room.full

    @property
    def stored(self) -> int:
        """Bytes on disk."""
        return sum(map(self._folder.size, self.segments()))

    def segments(self) -> list[str]:
        return self._folder.segments()

    def write(self, number: int, pieces: Sequence[bytes], at: float) -> None:
        """Append to head `number`; the first time with a new number ends the one before it.

        If that is not possible, as the disk is full or sick, the rest of this head is lost.
        """
        if number == self.lost or self._full_disk.waits:
            self.lost = number
            return
        if number != self._number:
            self.end()
            self._number = number
        try:
            if self._handle < 0:
                self._begin(at)
            while pieces:
                many = os.writev(self._handle, pieces[:_AT_ONCE])
                pieces = _after(pieces, many)
                self.size += many
                self._head_size += many
            if self._monotonic() - self._synced >= SYNC:
                self._synced = self._monotonic()
                os.fdatasync(self._handle)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            self._trouble(f"{why}: a part of the recording is lost")
            if error.errno in _FULL:
                self._full_disk.failed()
            self.lost = number
            self._give_up()
            return
        if passed := self._full_disk.written():
            self._goes_on(passed)

    def _goes_on(self, passed: float) -> None:
        """There is room on the disk again."""
        self._trouble(f"the disk was full for {lasting(passed)}: what was new is lost, what is older was kept")
        if self._settling is not None:  # for which there was no room either
            for segment in self._folder.unsettled():
                if segment != self._segment:
                    self._settling.add(segment)

    def end(self) -> None:
        """End the head that is being written, have it settled, and make room."""
        segment = self._segment
        self._close()
        self._settle(segment)
        if self.most_bytes < self._wanted:  # it may become more again, but never less
            self.most_bytes = self._room.most_bytes = max(self.most_bytes, min(self._wanted, self._possible))
        self._room.make()
        self.size = self.stored
        for stuck in self._room.stuck:
            self._trouble(stuck)

    def tend(self) -> None:
        """Now and then: start what waits to be settled, note what failed."""
        self._kernel_table.tend()
        if self._settling is not None:
            self._settling.tend()
            if self._settling.behind > BEHIND:
                self._trouble("this node leaves too little time to settle: finished heads wait, and stay as captured")
            while self._settling.failed:
                self._trouble(self._settling.failed.pop())

    def close(self, wait: float = 0.0) -> None:
        """End it all. What is not settled after `wait` seconds stays a head, which is just as good."""
        self.end()
        if self._settling is not None:
            self._settling.finish(wait)
            self.tend()
        self._folder.close()

    @property
    def _possible(self) -> int:
        """Bytes that the disk has for us. What is there already is not dropped because others have taken the rest."""
        disk, stored = os.statvfs(self._folder.path), self.stored
        return int(max(stored / ROOM + 1, OF_DISK * (stored + disk.f_bavail * disk.f_frsize)))

    def _begin(self, at: float) -> None:
        if not self._segment:  # a folder for which the disk had room, but not for its head
            self._segment, folder = self._folder.new_segment(at)
            os.close(folder)
        self._handle = self._folder.create(self._segment, HEAD_FILE)
        with suppress(OSError):  # until it is closed nobody settles it; without locks nobody settles anything
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._began = self._synced = self._monotonic()
        self._head_size = 0

    def _close(self) -> None:
        if self._handle >= 0:
            with suppress(OSError):
                os.fdatasync(self._handle)
            with suppress(OSError):
                os.close(self._handle)
            self._room.lasted(self._segment, self._monotonic() - self._began)
        self._segment, self._handle = "", -1

    def _give_up(self) -> None:
        """What was written of this head is kept, if it is anything."""
        segment, empty = self._segment, self._head_size <= len(MAGIC)
        self._close()
        if segment and empty:
            with suppress(OSError):
                self._folder.remove(segment)
        else:
            self._settle(segment)

    def _settle(self, segment: str) -> None:
        if self._settling is not None and segment:
            self._settling.ended(segment, self._monotonic() - self._began)

    def _trouble(self, what: str) -> None:
        for troubles in (self.troubles, self.happened):
            if what not in troubles and len(troubles) < MOST_TROUBLES:
                troubles.append(what)


def together(most_bytes: int) -> int:
    """How many heads one child settles, in a recording of at most so many bytes."""
    return max(1, min(TOGETHER, round(WAITING_SHARE * most_bytes / LARGEST)))


def _after(pieces: Sequence[bytes], many: int) -> list[bytes]:
    """What is left of them when so many bytes are written."""
    left = list[bytes]()
    for piece in pieces:
        if many < len(piece):
            left.append(piece[many:] if many else piece)
        many = max(many - len(piece), 0)
    return left


class DiskThread:
    """Hands over to Heads, in a thread: a disk that does not answer stops nothing else. Its counts may be read at any
    time."""

    def __init__(self) -> None:
        """What is written before `start` waits."""
        self._number = 0  # of the head that is being written
        self._tasks: queue.SimpleQueue[tuple[int, Sequence[bytes], float] | None] = queue.SimpleQueue()
        self._waiting = 0  # bytes, and one for each task: those that are being done included
        self._lock = threading.Lock()
        self.dropped = 0  # bytes that had no room to wait

    def start(self, heads: Heads) -> None:
        self._heads = heads
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """A part of the head that is being written could not be: its rest has no place."""
        return self._heads.lost == self._number

    def write(self, pieces: Sequence[bytes]) -> None:
        """To the head that is being written; if there is no room to wait, its rest is lost."""
        if not self._put(self._number, pieces):
            self._heads.lost = self._number

    def next_head(self) -> None:
        """All that comes from now on."""
        self._number += 1

    def end(self) -> None:
        """End the head that is being written, when all of it is."""
        self._put(-1, ())

    def _put(self, number: int, pieces: Sequence[bytes]) -> bool:
        many = sum(map(len, pieces))
        with self._lock:
            if self._waiting + many > MOST_WAITING:
                self.dropped += many
                return False
            self._waiting += many + 1
        self._tasks.put((number, pieces, time.time()))
        return True

    def wait(self, seconds: float) -> bool:
        """For all of it to be written; whether it was."""
        end = time.monotonic() + seconds
        while self._waiting:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def close(self, seconds: float = LAST_WAIT) -> None:
        self._tasks.put(None)
        self._thread.join(seconds + 10)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            number, pieces, at = task
            if number < 0:
                self._heads.end()
            else:
                self._heads.write(number, pieces, at)
            self._heads.tend()
            with self._lock:
                self._waiting -= sum(map(len, pieces)) + 1
        self._heads.close(LAST_WAIT)
