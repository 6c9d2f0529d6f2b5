"""`diagnose RECORDING --last`: the end of a recording alone."""

from __future__ import annotations

import json

import pytest
from tests.conftest import Run

from zombiescope.places.sample import SAMPLE


def test_the_last_seconds_of_a_recording(zombiescope: Run) -> None:
    """Counted from its own end; how long ago that was is said, as it may be yesterday's."""
    whole = json.loads(zombiescope("diagnose", SAMPLE, "--format", "json", expect=1).stdout)["span"]
    done = zombiescope("diagnose", SAMPLE, "--last", "20s", "--format", "json")
    told = json.loads(done.stdout)["span"]
    assert told["end"] == pytest.approx(whole["end"], abs=2) and told["end"] - told["start"] == pytest.approx(20, abs=3)
    assert "the last 20.0 s; it ends " in done.stderr and " ago" in done.stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--last", "10m"), "--last is for a recording"),
        ((SAMPLE, "--last", "10m", "--from", "05:10"), "leave out --from and --to"),
        ((SAMPLE, "--last", "soon"), "not a number of seconds"),
    ],
)
def test_a_mistake_with_last_is_one_line(argv: tuple[str, ...], words: str, zombiescope: Run) -> None:
    assert words in zombiescope("diagnose", *argv, expect=2).stderr
