"""Do what may never return, such as reading a sick disk, without waiting for it longer than a moment.

A thread is enough, also where it waits in the kernel for the lock of another process's memory map: such a wait ends
with the process that waits (killable; 6.18). One that waits for a broken disk may not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from zombiescope.core.errors import Unparsable, Unreadable

Result = TypeVar("Result")

PATIENCE = 0.5  # seconds; a library is read in some milliseconds, a large program from a slow disk in a second
# That have not returned. With so many, nothing new is begun: so all waiting together is bounded, 4 s, and so is the
# memory, 8 MB of address space for each thread.
MOST = 8
MOST_ALIKE = 2  # of them about the same process or disk: what else there is goes on


class Task(Generic[Result]):
    """A piece of work that may be under way still."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: Result | None = None
        self._error: Exception | None = Unreadable("naming", "not done")

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def result(self) -> Result:
        """What it gave, once it is done; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def _run(self, work: Callable[[], Result]) -> None:
        try:
            self._result = work()
            self._error = None
        except (Unreadable, Unparsable, OSError, ValueError, MemoryError) as error:
            self._error = error
        finally:
            self._done.set()


class Aside:
    """Threads that die with the process; one for each piece of work: 75 µs, against milliseconds to read a file."""

    def __init__(self, patience: float = PATIENCE, most: int = MOST) -> None:
        self._patience, self._most = patience, most
        self._late: list[tuple[Task[object], tuple[Hashable, ...]]] = []

    @property
    def busy(self) -> bool:
        """Something is under way."""
        return any(not task.done for task, _ in self._late)

    @property
    def why_full(self) -> str:
        """Why nothing new is begun; empty if it is."""
        waiting = len(self.waiting)
        return f"{waiting} reads have not returned: no more are begun until one does" if waiting >= self._most else ""

    @property
    def waiting(self) -> list[tuple[Hashable, ...]]:
        """What is under way, by what it is about."""
        return [about for task, about in self._late if not task.done]

    def run(self, work: Callable[[], Result], *about: Hashable) -> Task[Result] | None:
        """Begin, and wait a moment; None if too much is under way already, in all or about the same."""
        self._late = [(task, its) for task, its in self._late if not task.done]
        alike = max((sum(one in its for _, its in self._late) for one in about), default=0)
        if len(self._late) >= self._most or alike >= MOST_ALIKE:
            return None
        task: Task[Result] = Task()
        threading.Thread(target=task._run, args=(work,), name="aside", daemon=True).start()
        if not task._done.wait(self._patience):
            self._late.append((task, about))  # type: ignore[arg-type]
        return task
