"""Times on the command line, as they are meant of a recording: of its own day, or since it began."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.cli._looking import moment, moment_of_recording, placed, span_within
from zombiescope.core import Span

DAY = 86400.0


def at(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


HALF_HOUR = Span(at("2025-03-04T05:00:00"), at("2025-03-04T05:30:00"))
OVER_MIDNIGHT = Span(at("2025-03-04T22:00:00"), at("2025-03-05T02:00:00"))
LONG = Span(at("2025-03-04T00:00:00"), at("2025-03-05T06:00:00"))


@pytest.mark.parametrize(
    ("own", "text", "meant"),
    [
        (HALF_HOUR, "05:10", "2025-03-04T05:10:00"),
        (HALF_HOUR, "05:00:00", "2025-03-04T05:00:00"),
        (HALF_HOUR, "04:50", "2025-03-04T04:50:00"),  # just before it, not a day after
        (HALF_HOUR, "05:40", "2025-03-04T05:40:00"),  # just after it, not a day before
        (OVER_MIDNIGHT, "23:50", "2025-03-04T23:50:00"),
        (OVER_MIDNIGHT, "00:10:00.5", "2025-03-05T00:10:00.5"),
        (LONG, "05:00", "2025-03-05T05:00:00"),  # of two such times the last
        (LONG, "07:00", "2025-03-04T07:00:00"),
        (HALF_HOUR, "2024-01-01T00:00:00", "2024-01-01T00:00:00"),  # a date is a date
        (HALF_HOUR, "12.5", "2025-03-04T05:00:12.5"),
        (HALF_HOUR, "0", "2025-03-04T05:00:00"),
    ],
)
def test_a_time_is_of_the_recording(own: Span, text: str, meant: str) -> None:
    assert placed(moment_of_recording(text), own) == pytest.approx(at(meant), abs=1e-3)


def test_a_range_may_be_over_midnight() -> None:
    asked = Span(moment("23:50"), moment("00:10"))
    assert span_within(asked, OVER_MIDNIGHT) == Span(at("2025-03-04T23:50:00"), at("2025-03-05T00:10:00"))
    later = span_within(Span(moment("05:00"), moment("07:00")), LONG)
    assert later == Span(at("2025-03-05T05:00:00"), at("2025-03-05T07:00:00"))
    assert span_within(None, LONG) is None
    assert span_within(Span(0.0, float("inf")), LONG) == Span(0.0, float("inf"))


@pytest.mark.parametrize("text", ["123456789012", "1.", "-1", "25:00", "05:60", "5:10", "soon", "١٢"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time"):
        moment_of_recording(text)


@pytest.mark.e2e
def test_the_times_that_a_report_shows_can_be_given_back(zombiescope: Run, tmp_path: Path) -> None:
    whole = json.loads(zombiescope("diagnose", "--sample", "--format", "json").stdout)["span"]
    start = f"{datetime.fromtimestamp(whole['start'] + 20, UTC):%H:%M:%S}"
    end = f"{datetime.fromtimestamp(whole['start'] + 40, UTC):%H:%M:%S}"
    for given in ((start, end), ("20", "40")):
        told = json.loads(
            zombiescope("diagnose", "--sample", "--from", given[0], "--to", given[1], "--format", "json").stdout
        )
        assert told["span"]["start"] == pytest.approx(whole["start"] + 20, abs=2)
        assert told["span"]["end"] == pytest.approx(whole["start"] + 40, abs=2)
    zombiescope("view", "--sample", "--from", start, "--to", end, "-o", str(tmp_path / "heat.svg"), expect=0)
    assert "nothing in that range" in zombiescope("diagnose", "--sample", "--from", "90000", expect=2).stderr
