"""The loop of the recorder: it wakes for /proc/stat four times a second, and does all else that is due then."""

from __future__ import annotations

import time

from zombiescope.core import Host
from zombiescope.members.rooms import healthy
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.loop import COARSE, GRID, Loop


def test_it_wakes_once_for_all_that_is_due() -> None:
    parts: list[bytes] = []
    sink, sleeps, acted = HeadSink(parts.extend), list[float](), list[float]()
    with Loop(Host(), sink) as loop:

        def sleep(seconds: float) -> None:
            sleeps.append(seconds)
            time.sleep(seconds)

        def act() -> float:
            acted.append(time.monotonic())
            return 0.55  # by the grid: 0.75

        loop.sleep = sleep
        loop.look_at_all()
        for _ in range(10):
            loop.every(act, after=0.35)
            time.sleep(0.003)  # others begin a little later
        loop.run(2.0)
    assert len(sleeps) <= 2.0 / GRID + 5
    assert len(acted) >= 20 and len({round((at - acted[0]) / GRID) for at in acted}) <= 8


def test_what_a_probe_says_of_its_interval_is_what_happens() -> None:
    """Longer ones are multiples of the beat: any other would be rounded up, and the docs would be wrong."""
    paces = {name: probe.EVERY for name, probe in healthy("probes").items()}
    assert not [name for name, every in paces.items() if every >= COARSE and every % COARSE]
