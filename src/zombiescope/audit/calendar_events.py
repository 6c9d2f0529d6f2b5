"""How often a calendar event of a timer fires: OnCalendar= as systemd.time(7) defines it.

Weekdays, dates and times, each a list of values, ranges and steps, `~` for days before the end of a month, a time zone
at the end (which changes when, not how often), and the short forms (hourly, …). systemd ignores a line that it cannot
parse, so such a line never fires. Changes to and from daylight saving time are left out.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from itertools import pairwise

DAY = 86400.0  # seconds
NEVER = float("inf")
MOST_EVENTS = 200  # of one timer, 3 ms each; one or two are usual
_SHORT = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    **dict.fromkeys(("semiannually", "semi-annually", "biannually", "bi-annually"), "*-01,07-01 00:00:00"),
    **dict.fromkeys(("yearly", "annually", "anually"), "*-01-01 00:00:00"),
}
_WEEKDAYS = tuple(day.lower() for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
_LONGEST = 500  # characters of an expression; a longer one is not a calendar event
_MOST_VALUES = 10_000  # of one list: only seconds have more than 2,200, and 6 ms are as fast as less
_VALUE = r"\d{1,9}(?:\.\d{1,6})?"
_PART = re.compile(rf"(\*|{_VALUE})(?:\.\.({_VALUE}))?(?:/({_VALUE}))?")
_YEARS = (1970, 2199)  # as MIN_YEAR and MAX_YEAR of systemd's calendarspec.c
_SAMPLE = range(2025, 2033)  # of every year: two leap years, and every date on almost every weekday


def pace(*texts: str) -> float:
    """Seconds between two runs of all these events on the day that has most; if that is one, between two such days.

    The same event in two spellings (hourly, *:00) is one. Runs that two different events have in common count twice.
    """
    runs: Counter[int] = Counter()  # by day
    for (hours, minutes, seconds), days in {_event(text) for text in texts}:
        runs.update(dict.fromkeys(days, len(hours) * len(minutes) * len(seconds)))
    if not runs:
        return NEVER
    if (most := max(runs.values())) > 1:
        return DAY / most
    gaps = [after - before for before, after in pairwise(sorted(runs))]
    return min(gaps) * DAY if gaps else NEVER


_Times = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]  # hours, minutes, seconds
_Days = tuple[list[float] | None, list[float], list[float], bool]  # years (None: any), months, days, from the end


@lru_cache(maxsize=256)
def _event(text: str) -> tuple[_Times, tuple[int, ...]]:
    """The times of a day at which it fires, and the days."""
    try:
        weekdays, days, times = _parsed(text)
        return times, tuple(_days(weekdays, *days))
    except ValueError:
        return ((), (), ()), ()


def _parsed(text: str) -> tuple[set[int], _Days, _Times]:
    text = text.strip()
    if not text or len(text) > _LONGEST or not text.isascii() or text.startswith("@"):  # the last is one moment
        raise ValueError(text)
    words = text.split()
    if len(words) > 1 and re.fullmatch(r"UTC|(?:[A-Z]\w+(?:/[\w+-]+)+)|[A-Z]{3,5}(?:\d[A-Z]{3,4})?", words[-1]):
        words.pop()
    if len(words) == 1 and words[0].lower() in _SHORT:
        words = _SHORT[words[0].lower()].split()
    weekdays = set(range(7))
    if words and words[0][0].isalpha():
        weekdays = set(_weekdays(words.pop(0)))
    times = "00:00:00"
    if words and ":" in words[-1]:
        times = words.pop()
    if len(words) > 1:
        raise ValueError(text[:40])
    days: _Days = _dates(words[0]) if words else (None, _values("*", 1, 12), _values("*", 1, 31), False)
    clock = times.split(":")
    if len(clock) not in (2, 3):
        raise ValueError(text[:40])
    hour, minute, second = [*clock, "00"][:3]
    seconds = tuple(_values(second, 0, 59.999999, fine=True))
    return weekdays, days, (tuple(_values(hour, 0, 23)), tuple(_values(minute, 0, 59)), seconds)


def _weekdays(text: str) -> Iterator[int]:
    for part in text.strip(",").split(","):
        ends = re.split(r"\.\.|-", part.lower())
        numbers = [_weekday(end) for end in ends]
        if len(numbers) > 2:
            raise ValueError(text)
        first, last = numbers[0], numbers[-1]
        if first > last:
            raise ValueError(text)
        yield from range(first, last + 1)


def _weekday(text: str) -> int:
    for number, name in enumerate(_WEEKDAYS):
        if text in (name, name[:3]):
            return number
    raise ValueError(text)


def _dates(text: str) -> _Days:
    """[Y-]M-D or [Y-]M~D: the second counts days from the end of the month, 1 being the last."""
    before, tilde, after = text.partition("~")
    parts = [*before.split("-"), after] if tilde else text.split("-")
    if len(parts) == 2:
        parts = ["*", *parts]
    if len(parts) != 3:
        raise ValueError(text)
    year, month, day = parts
    years = None if year == "*" else [_full_year(it) for it in _values(year, 0, _YEARS[1])]
    return years, _values(month, 1, 12), _values(day, 1, 31, backwards=bool(tilde)), bool(tilde)


def _full_year(value: float) -> float:
    """Two digits are short for 1970 to 2069."""
    return value if value >= 100 else value + (2000 if value < 70 else 1900)


def _values(text: str, least: int, most: float, *, fine: bool = False, backwards: bool = False) -> list[float]:
    """The values that a list of values, ranges and steps stands for; a step goes to the end of the range, or from
    a day before the end of a month to its last day (`backwards`)."""
    found: set[float] = set()
    left = _MOST_VALUES
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or (not fine and "." in part.replace("..", "")):
            raise ValueError(text)
        start, end, step = match.groups()
        if start == "*":
            if end is not None or step is not None:
                raise ValueError(text)
            first, last, by = float(least), most, 1.0
        else:
            first = float(start)
            last = float(end) if end is not None else first if step is None else most
            by = float(step) if step is not None else 1.0
            if step is not None and end is None:
                if backwards:
                    first, last = float(least) + (first - least) % (by or 1.0), first
                if by > last - first:  # as systemd refuses it
                    raise ValueError(text)
        if by <= 0 or first < least or last > most or first > last:
            raise ValueError(text)
        values = min(int((last - first) / by + 1e-9) + 1, left)
        left -= values
        found.update(round(first + place * by, 6) for place in range(values))
    return sorted(found)


def _days(
    weekdays: set[int], years: list[float] | None, months: list[float], days: list[float], backwards: bool
) -> Iterator[int]:
    """The days that match, as numbers that count up, over eight years at most."""
    for year in list(_SAMPLE) if years is None else [int(it) for it in years if _YEARS[0] <= it <= _YEARS[1]][:8]:
        for month in map(int, months):
            length = calendar.monthrange(year, month)[1]
            chosen = sorted(length + 1 - int(day) if backwards else int(day) for day in days)
            for day in chosen:
                if 1 <= day <= length and (found := date(year, month, day)).weekday() in weekdays:
                    yield found.toordinal()
