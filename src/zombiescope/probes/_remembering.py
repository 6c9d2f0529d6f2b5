"""Cache what is expensive to find, such as which cgroups have a limit, and renew it now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable

Look = Callable[[], Iterator[Reading | Blind]]
_Found = TypeVar("_Found")
SOONER = 3  # times as often as asked for: a fault in a new pod is seen within 20 s then, in place of a minute
CHEAP = 0.0005  # of one core, for that: walking what takes 10 ms; what takes 30 ms or more is as asked for


@contextmanager
def renewing(renew: Callable[[], None], tell: Look, every: float) -> Iterator[Look]:
    """Each sample is what `tell` says; before the first, and then every so many seconds, `renew` is called.

    Where that costs little, it is called sooner.
    """
    due = float("-inf")

    def look() -> Iterator[Reading | Blind]:
        nonlocal due
        if time.monotonic() >= due:
            due, began = time.monotonic() + every, time.thread_time()  # also if it fails
            renew()
            due = time.monotonic() + min(every, max(every / SOONER, (time.thread_time() - began) / CHEAP))
        return tell()

    yield look


def remembering(
    find: Callable[[], _Found], tell: Callable[[_Found], Iterator[Reading | Blind]], every: float
) -> AbstractContextManager[Look]:
    """Each sample uses what was found last; the reason why nothing was found is remembered as well."""
    known: list[_Found | Unreadable | Unparsable] = []

    def renew() -> None:
        known.clear()
        try:
            known.append(find())
        except (Unreadable, Unparsable) as error:
            known.append(error)  # a failed walk costs as much as a successful one

    def told() -> Iterator[Reading | Blind]:
        found = known[0]
        if isinstance(found, Unreadable | Unparsable):
            raise found
        yield from tell(found)

    return renewing(renew, told, every)


def remembered(
    find: Callable[[Host], _Found],
    tell: Callable[[Host, _Found], Iterator[Reading | Blind]],
    every: Callable[[], float],
) -> tuple[Callable[[Host], AbstractContextManager[Look]], Callable[[Host], Iterator[Reading | Blind]]]:
    """The `watch` and the `read` of a probe that finds out first of what to tell: in a recording, now and then.

    `every` is asked when a recording begins: `--set` may have changed it.
    """

    def watch(host: Host) -> AbstractContextManager[Look]:
        return remembering(lambda: find(host), lambda known: tell(host, known), every())

    def read(host: Host) -> Iterator[Reading | Blind]:
        return tell(host, find(host))

    return watch, read


def keeping(
    new: Callable[[], _Found], tell: Callable[[Host, _Found], Iterator[Reading | Blind]]
) -> tuple[Callable[[Host], AbstractContextManager[Look]], Callable[[Host], Iterator[Reading | Blind]]]:
    """The `watch` and the `read` of a probe that keeps something from one sample to the next; `new` is it at first."""

    @contextmanager
    def watch(host: Host) -> Iterator[Look]:
        known = new()
        yield lambda: tell(host, known)

    def read(host: Host) -> Iterator[Reading | Blind]:
        return tell(host, new())

    return watch, read
