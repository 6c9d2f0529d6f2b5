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
    "*-02-29": 1461 * DAY,
    "*:0..30": DAY / (24 * 31),
    "*:0/59": 1800,
    "*:*:0.5": 60,
    "*:*:0/0.5": 0.5,
    # Two digits are 1970 to 2069. The weekday is that of the date, so a wrong year never fires.
    "Sat 00-01-01 *:*": 60,
    "Tue 69-01-01 *:*": 60,
    "Thu 70-01-01 *:*": 60,
    "Tue 2199-01-01 *:*": 60,
    # Days before the end of a month: February 2027 ends on Sunday 28; 8, 5 and 2 days from there are 21, 24 and 27.
    "Sun 2027-02~1 *:*": 60,
    "Sun 2027-02~8/3 *:*": 60,
    "Wed 2027-02~8/3 *:*": 60,
    "Sat 2027-02~8/3 *:*": 60,
    "*:" + "000000000," * 49 + "00000000": 3600,
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
    "*:1.5:00",
    "*:1/59",
    "UTC",
    "*-*-* *-*-* 6:00",
    "Mon..Tue..Wed 1:00",
    "*-02-30 *:*",
    "100-01-01 *:*",
    "2200-01-01 *:*",
    "Mon 2027-02~8/3 *:*",
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


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        ((), NEVER),
        (("soon",), NEVER),
        (("soon", "hourly"), 3600),
        (("*:00", "*:30"), 1800),  # as fast as each, and not at the same time
        (tuple(f"*:{minute:02}" for minute in range(60)), 60),
        (("hourly", "*:00", "*-*-* *:00:00"), 3600),  # one event in three spellings
        (("Mon *:*", "Tue *:*"), 60),  # never on the same day
        (("Mon..Fri *:0/10", "Fri *:5/10"), 300),
        (("*-*-* 6:00", "*-*-* 18:00"), DAY / 2),
        (("Mon", "Thu"), 3 * DAY),
        (("2027-06-30", "2027-07-02"), 2 * DAY),
    ],
)
def test_several_events_of_one_timer(texts: tuple[str, ...], value: float) -> None:
    assert pace(*texts) == pytest.approx(value)


def test_what_is_longer_than_any_calendar_event_never_fires() -> None:
    assert pace("*:" + "000000000," * 49 + "000000000") == NEVER


@pytest.mark.parametrize("step", ["0.006", "0.000001", "0.0000001"])
def test_a_step_of_microseconds_is_fast_and_costs_no_more_than_others(step: str) -> None:
    """systemd takes it: `*:*:0/0.000001` has 60 million values a minute, and never is the one wrong answer."""
    assert pace(f"*:*:0/{step}") == pytest.approx(0.006 if float(step) >= 1e-6 else NEVER)
    assert pace(f"*:*:0/{step},0/{step}") == pace(f"*:*:0/{step}")


@given(st.text(alphabet="0123456789*:/.,-~ MonFriUTC", max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    assert pace(text) > 0
