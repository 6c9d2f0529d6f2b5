"""A thread for what may block: a hung mount, a bus that does not answer, a pipe that nobody writes to.

Tasks run one after the other. One that takes longer than its deadline is left behind with its thread, and another
thread continues with the next; so there is one thread, and one more for each task that hangs. Python cannot end a
thread that waits in the kernel: it ends when its task does, or with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

DEADLINE = 5.0  # seconds: a read of a kernel file takes milliseconds, a busy system bus gets 3 s for each question


class Worker:
    """Takes tasks by name from one thread, which also asks which of them are done. What they found they keep."""

    def __init__(self, deadline: float = DEADLINE) -> None:
        self.deadline = deadline
        self._tasks: queue.SimpleQueue[tuple[str, Callable[[], object]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._asked: list[tuple[str, Callable[[], object]]] = []  # not begun yet
        self._waiting: set[str] = set()  # asked, not done, not late
        self._hung: set[str] = set()  # late, and still not done
        self._lock = threading.Lock()
        self._generation = 0
        self._now: tuple[str, float] | None = None  # the task that runs, and since when
        self._start()

    def ask(self, name: str, task: Callable[[], object]) -> None:
        """It is begun when who asks waits for it, or sleeps."""
        self._waiting.add(name)
        self._asked.append((name, task))

    def begin(self) -> None:
        """To be called before sleeping: until then the two threads would only take the interpreter from each other."""
        for task in self._asked:
            self._tasks.put(task)
        self._asked.clear()

    def waits(self, name: str) -> bool:
        """It was asked, and may still be done in time."""
        return name in self._waiting

    def hangs(self, name: str) -> bool:
        """It was late, and its thread has not come back."""
        return name in self._hung

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def done(self, wait: float = 0.0) -> list[str]:
        """What was done in time since the last call; waits for the first one at most `wait` seconds."""
        if wait > 0:
            self.begin()
        found: list[str] = []
        try:
            while True:
                name = self._done.get(timeout=wait) if wait > 0 and not found else self._done.get_nowait()
                if name in self._waiting:
                    self._waiting.discard(name)
                    found.append(name)
                self._hung.discard(name)  # it came back, too late to be of use
        except queue.Empty:
            return found

    def late(self) -> list[str]:
        """The task that has just passed its deadline, if any: it is left behind."""
        with self._lock:
            if self._now is None or time.monotonic() - self._now[1] < self.deadline:
                return []
            name, self._now = self._now[0], None
            self._generation += 1
        self._waiting.discard(name)
        self._hung.add(name)
        self._start()
        return [name]

    def close(self) -> None:
        self._tasks.put(None)

    def _start(self) -> None:
        # Not waited for at the end of the program: one that hangs would never let it end.
        threading.Thread(target=self._run, args=(self._generation,), name="probes", daemon=True).start()

    def _run(self, generation: int) -> None:
        while (task := self._tasks.get()) is not None:
            name, act = task
            self._now = (name, time.monotonic())
            act()
            with self._lock:
                self._done.put(name)
                if generation != self._generation:
                    return
                self._now = None
