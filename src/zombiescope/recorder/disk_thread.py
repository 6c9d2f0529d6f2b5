"""A thread for the disk: what is captured is handed over, and a disk that does not answer stops nothing else.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

import queue
import threading
import time

from zombiescope.recorder.heads import Heads

MOST_WAITING = 64 << 20  # bytes that may wait for a disk that does not answer: some minutes
LAST_WAIT = 20.0  # seconds at the end, for the last heads to be settled


class DiskThread:
    """Hands over to Heads. Its counts may be read at any time."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._tasks: queue.SimpleQueue[tuple[int, bytes, float] | None] = queue.SimpleQueue()
        self._waiting = 0  # bytes, and one for each task: those that are being done included
        self._lock = threading.Lock()
        self.dropped = 0  # bytes that had no room to wait
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._thread.start()

    def write(self, number: int, content: bytes) -> bool:
        """Whether it was taken."""
        with self._lock:
            if self._waiting + len(content) > MOST_WAITING:
                self.dropped += len(content)
                return False
            self._waiting += len(content) + 1
        self._tasks.put((number, content, time.time()))
        return True

    def end(self) -> None:
        """End the head that is being written, when all of it is."""
        self.write(-1, b"")

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
            number, content, at = task
            if number < 0:
                self._heads.end()
            else:
                self._heads.write(number, content, at)
            self._heads.tend()
            with self._lock:
                self._waiting -= len(content) + 1
        self._heads.close(LAST_WAIT)
