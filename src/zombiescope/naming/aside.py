"""Do what may never return, such as reading a sick disk, without waiting for it longer than a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from zombiescope.core.errors import Unparsable, Unreadable

Result = TypeVar("Result")

PATIENCE = 0.5  # seconds; a library is read in some milliseconds, a large program from a slow disk in a second
MOST = 2  # that have not returned; with so many, nothing new is begun, so all waiting together is bounded, too


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
    """Threads that die with the process; one for each piece of work: 60 µs, against milliseconds to read a file."""

    def __init__(self, patience: float = PATIENCE, most: int = MOST) -> None:
        self._patience, self._most = patience, most
        self._late: list[Task[object]] = []

    @property
    def busy(self) -> bool:
        """Something is under way."""
        return any(not task.done for task in self._late)

    def run(self, work: Callable[[], Result]) -> Task[Result] | None:
        """Begin, and wait a moment; None if too much is under way already."""
        self._late = [task for task in self._late if not task.done]
        if len(self._late) >= self._most:
            return None
        task: Task[Result] = Task()
        threading.Thread(target=task._run, args=(work,), name="naming", daemon=True).start()
        if not task._done.wait(self._patience):
            self._late.append(task)  # type: ignore[arg-type]
        return task
