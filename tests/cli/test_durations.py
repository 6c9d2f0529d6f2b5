"""Durations are read the same way everywhere: 90s, 10m, 2h, and a bare number in the option's own unit."""

from __future__ import annotations

import argparse

import pytest

from zombiescope.__main__ import command_parser
from zombiescope.cli._looking import duration


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (("diagnose", "--seconds", "90s"), "seconds", 90.0),
        (("diagnose", "--seconds", "2m"), "seconds", 120.0),
        (("diagnose", "--seconds", "7"), "seconds", 7.0),
        (("diagnose", "--seconds", "0"), "seconds", 0.0),
        (("census", "--seconds", "1.5M"), "seconds", 90.0),
        (("before", "rec", "--seconds", "1m"), "seconds", 60.0),
        (("fix", "--seconds", "1m"), "seconds", 60.0),
        (("fix", "--apply", "--prove", "10m"), "prove", 10.0),
        (("fix", "--apply", "--prove", "2h"), "prove", 120.0),
        (("fix", "--apply", "--prove", "90s"), "prove", 1.5),
        (("fix", "--apply", "--prove", "3"), "prove", 3.0),
        (("fix", "--apply", "--prove"), "prove", 10.0),
        (("gate", "--soak", "10m"), "soak", 10.0),
        (("gate", "--soak", "90s"), "soak", 1.5),
        (("gate", "--soak", "10"), "soak", 10.0),
        (("lab", "run", "quiet", "--keep", "2m"), "keep", 120.0),
        (("lab", "run", "quiet", "--keep", "30"), "keep", 30.0),
        (("record", "rec", "--for", "2m"), "length", 120.0),
        (("record", "rec", "--for", "2"), "length", 2.0),
        (("record", "rec", "--hours", "90m"), "hours", 1.5),
        (("record", "rec", "--hours", "2d"), "hours", 48.0),
        (("record", "rec", "--hours", "12"), "hours", 12.0),
    ],
)
def test_every_option_takes_them(argv: tuple[str, ...], name: str, value: float) -> None:
    assert getattr(command_parser(argv[0]).parse_args(argv), name) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "-1s", "nan", "nans", "inf", "infs", "1x", "2h", "61m", "1ss", "0", "0s"]
)
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of seconds above 0 and up to 3600"):
        duration("seconds", 3600.0)(text)
