"""The wall clock is set forwards and back while it records: nothing is lost, nothing is filed under another time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zombiescope.recorder.replay import opened

pytestmark = [pytest.mark.e2e, pytest.mark.beside]
STEPS = (0, 3600, 0, -3600)  # seconds; setting this machine's own clock would be felt by all that runs here
EACH = 2.5  # seconds
# The real recorder, but for the wall clock that it reads and for how long a segment is.
RECORDER = f"""
import sys, threading, time
set_by = [0]
wall, wall_ns = time.time, time.time_ns
time.time = lambda: wall() + set_by[0]
time.time_ns = lambda: wall_ns() + set_by[0] * 10**9
from zombiescope.__main__ import main
from zombiescope.recorder import capture
capture.SEGMENT_SECONDS = 0.5

def set_clock():
    for step in {STEPS}:
        print(time.clock_gettime(time.CLOCK_BOOTTIME), wall() - time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
        set_by[0] = step
        time.sleep({EACH})

threading.Thread(target=set_clock, daemon=True).start()
sys.exit(main(["record", sys.argv[1], "--for", "{EACH * len(STEPS)}s", "--set", "uptime.EVERY=0.1"]))
"""


def test_forwards_and_back_by_an_hour(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", RECORDER, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    begun, booted = np.array([list(map(float, line.split())) for line in done.stdout.splitlines()]).T
    recording = opened(str(tmp_path))
    assert not recording.damage and len(recording.segments) > EACH * len(STEPS) / 2
    assert list(recording.segments) == sorted(set(recording.segments))
    timeline = recording.timeline()
    # The kernel's own count of seconds says when each sample was really taken.
    uptime = timeline.series("uptime_seconds")
    order = np.argsort(uptime.values)
    at, value = uptime.at[order], uptime.values[order]
    assert np.diff(value).max() < 1, "none is lost"
    ahead = np.round((at - value - booted[0]) / 100) * 100
    # Files get the clock that was set when they were read: what was read within half a second, before or after.
    for number, step in enumerate(STEPS):
        inside = (value > begun[number] + 0.8) & (value < begun[number] + EACH - 0.1)
        assert inside.any() and (ahead[inside] == step).all(), step
    assert set(ahead.tolist()) == set(STEPS)
    # Those that are parsed at once, and the samples of the cores, are where the others are.
    for times in (timeline.looks("processes").at, timeline.samples().at / 1e9 if timeline.samples().at.size else at):
        places = np.round((times - booted[0] - value.mean()) / 100) * 100
        assert set(places.tolist()) <= set(STEPS)
