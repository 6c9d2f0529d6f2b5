"""How often calendar events fire, by themselves and against systemd-analyze."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.audit.calendar_events import DAY, NEVER, pace

EVENTS = {
    "minutely": 60,
    "hourly": 3600,
    "daily": DAY,
    "weekly": 7 * DAY,
    "monthly": 28 * DAY,
    "*:*:* UTC": 1,
    "*:*": 60,
    "*:0/5": 300,
    "*:0/10": 600,
    "*:0/7": 400,
    "*:00,30": 1800,
    "*:0..30/10": 900,
    "*-*-* *:*:00/15": 15,
    "*:*:0/20 Europe/Berlin": 20,
    "*-*-* 6:00": DAY,
    "*-*-* 6,18:00": DAY / 2,
    "12,14,13,12:20,10,30": DAY / 9,
    "Mon..Fri *:0/5": 300,
    "Sat,Thu,Mon..Wed": DAY,
    "Sun": 7 * DAY,
    "Monday-Friday 1:00": DAY,
    "*-*~1": 28 * DAY,
    "*-*~7/2": 2 * DAY,
    "2027-06-30 12:00": NEVER,
    "2027-06-30 *:*": 60,
}
WRONG = [
    "*",
    "",
    "soon",
    "25:00",
    "*:60",
    "*:0/0",
    "*/2:00",
    "10:05..00",
    "Fri..Mon 1:00",
    "*-13-01",
    "*:58/2",
    "1:2:3:4",
]


@pytest.mark.parametrize(("text", "value"), EVENTS.items())
def test_pace(text: str, value: float) -> None:
    assert pace(text) == pytest.approx(value)


@pytest.mark.parametrize("text", WRONG)
def test_what_systemd_ignores_never_fires(text: str) -> None:
    assert pace(text) == NEVER


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("text", [*(it for it, value in EVENTS.items() if 200 < value < 8 * DAY), *filter(None, WRONG)])
def test_as_systemd_analyze_says(text: str) -> None:
    """The most runs on one day of the next 600, or the days between two."""
    argv = ["systemd-analyze", "calendar", "--base-time=2027-02-01 00:00:00", "--iterations=600", text]
    said = subprocess.run(argv, capture_output=True, text=True, check=False, env={"TZ": "UTC", "LC_ALL": "C"})
    days = [line.split()[-3] for line in said.stdout.splitlines() if "elapse" in line or "Iter" in line]
    if said.returncode or len(days) < 2:
        assert pace(text) == NEVER
        return
    runs = Counter(days)
    if max(runs.values()) > 1:
        # systemd 252 leaves out the run at midnight of *:0/7, so one of 216 may differ.
        assert pace(text) == pytest.approx(DAY / max(runs.values()), rel=0.01)
    else:
        assert pace(text) <= 7 * DAY and len(runs) == 600


@given(st.text(alphabet="0123456789*:/.,-~ MonFriUTC", max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    assert pace(text) > 0
