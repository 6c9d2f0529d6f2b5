"""What is read many times a second: half as often while no core can be full in the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable

from zombiescope.core import Host, Unreadable
from zombiescope.probes import proc_stat
from zombiescope.recorder.often import Often
from zombiescope.recorder.sampling import Fetched, Sample


def pauses(often: Often, times: int) -> list[float]:
    """Seconds from each read to the next."""
    often.begin("proc_stat", time.monotonic() + 1000)
    found = []
    for _ in range(times):
        due = often.due
        often.fetch(1.0)
        found.append(round(often.due - due, 6))
    return found


def reading(fetch: Callable[[], bytes]) -> Often:
    return Often(Host(), {"proc_stat": proc_stat}, {"proc_stat": fetch}, lambda at, pause: at + pause)


def test_a_calm_node_is_read_half_as_often_and_a_busy_one_as_often_as_asked() -> None:
    ticks = iter((7, 7, 7, 500, 1000, 1000))
    often = reading(lambda: b"cpu  0 0 %d 0 0 0 0 0 0 0\ncpu0 0 0 0 0\n" % next(ticks))
    usual = proc_stat.EVERY
    assert pauses(often, 6) == [usual, 2 * usual, 2 * usual, usual, usual, 2 * usual], "the first shows no rate"
    assert len(often.take()) == 6 and not often.take()


def test_user_time_alone_is_calm() -> None:
    ticks = iter((7, 500, 1000))
    often = reading(lambda: b"cpu  %d 0 0 0 0 0 0 0 0 0\n" % next(ticks))
    assert pauses(often, 3)[1:] == [2 * proc_stat.EVERY] * 2


def test_what_cannot_be_read_is_tried_again_as_often_as_asked() -> None:
    def refused() -> bytes:
        raise Unreadable("/proc/stat", "for the test")

    often = reading(refused)
    assert pauses(often, 2) == [proc_stat.EVERY] * 2
    assert all(isinstance(it, Sample) and it.blind for _, it in often.take())
    odd = reading(lambda: b"not what the kernel writes")
    assert pauses(odd, 2) == [proc_stat.EVERY] * 2
    assert all(isinstance(it, Fetched) for _, it in odd.take())
