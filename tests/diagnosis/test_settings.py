"""--set: a threshold may be changed, by name, and only to something sensible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zombiescope.core import UserError
from zombiescope.diagnosis.describe import describe
from zombiescope.diagnosis.settings import override
from zombiescope.probes import proc_stat
from zombiescope.signs import saturated_core


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    kept = (saturated_core.FULL, proc_stat.EVERY)
    yield
    saturated_core.FULL, proc_stat.EVERY = kept


def test_a_threshold_and_a_pace_are_set_and_told() -> None:
    assert override(["saturated_core.FULL=0.8", "proc_stat.EVERY=0.05"]) == (
        "saturated_core.FULL=0.8",
        "proc_stat.EVERY=0.05",
    )
    assert (saturated_core.FULL, proc_stat.EVERY) == (0.8, 0.05)


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("saturated_core", "takes MEMBER.CONST=VALUE"),
        ("saturatd_core.FULL=1", "did you mean saturated_core?"),
        ("saturated_core.EMPTY=1", "it has FULL, SECONDS"),
        ("saturated_core.FULL=much", "not a number"),
        ("saturated_core.FULL=nan", "out of range"),
        ("saturated_core.FULL=-1", "out of range"),
        ("proc_stat.EVERY=0", "out of range"),
        ("zombie_cgroups.MANY=1.5", "not a number"),
    ],
)
def test_a_mistake_is_told_in_words(item: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        override([item])


def test_words_have_headings_and_reasons() -> None:
    words = describe(saturated_core)
    assert words.summary == "One core is almost entirely busy in the kernel for a second or more."
    assert set(words.sections) == {"Why it hurts", "False alarms", "References"}
    assert {it.name: it.value for it in words.thresholds}["SECONDS"] == 1.0
    assert all(it.reason for it in words.thresholds)
