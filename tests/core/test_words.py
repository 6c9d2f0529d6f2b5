"""Hostile text made harmless, and numbers as people say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core import amount, harmless, lasting, percent
from zombiescope.knowledge.blind_causes import what_to_do

ANYTHING = st.text(st.characters())  # lone surrogates too


@given(ANYTHING, st.integers(1, 50))
def test_harmless(text: str, most: int) -> None:
    shown = harmless(text, most=most)
    assert shown.isprintable()
    assert shown.encode("utf-8").decode() == shown
    assert len(shown) <= (10 * most if len(text) <= most else most + 1)
    assert harmless(shown, most=10 * most + 1) == shown


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert harmless(text) == (text if len(text) <= 400 else text[:400] + "…")


@given(st.binary(max_size=60))
def test_any_bytes(raw: bytes) -> None:
    assert harmless(raw.decode("utf-8", "surrogateescape")).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\0", r"a\x0ab\x09c\x00"),
        ("\udcff", r"\xff"),
        ("\ud800", r"\ud800"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2028", r"\u2028"),
        ("\xa0", r"\xa0"),
        ("\U000e0041", r"\U000e0041"),
        ("Zürich 東京", "Zürich 東京"),
        ("", ""),
        ("x" * 401, "x" * 400 + "…"),
    ],
)
def test_harmless_shows_what_it_was(text: str, shown: str) -> None:
    assert harmless(text) == shown


AMOUNTS = {
    0: "0 B",
    999: "999 B",
    1000: "1.0 KB",
    25_300_000: "25.3 MB",
    1.5e9: "1.5 GB",
    2e12: "2.0 TB",
    7e15: "7.0 PB",
    7e18: "7000.0 PB",
    -25_300: "-25.3 KB",
}


@pytest.mark.parametrize(("size", "said"), AMOUNTS.items())
def test_amount(size: float, said: str) -> None:
    assert amount(size) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (3.54, "3.5 s"),
        (119, "119.0 s"),
        (120, "2 min"),
        (720, "12 min"),
        (7200, "2.0 h"),
        (18_720, "5.2 h"),
        (48 * 3600, "2.0 days"),
        (86_400 * 1234.5, "1,234.5 days"),
    ],
)
def test_lasting(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


def test_percent() -> None:
    assert (percent(0.974), percent(0.9965, 1), percent(1.25), percent(0.0)) == ("97 %", "99.7 %", "125 %", "0 %")


@given(st.floats())
def test_no_number_is_too_odd_to_be_said(number: float) -> None:
    assert all(words(number).isprintable() for words in (amount, lasting, percent))


def test_a_cure_for_the_reasons_that_we_know() -> None:
    assert "root" in what_to_do("/proc/kallsyms: permission denied")
    assert "host" in what_to_do("only a part of the hierarchy is visible from this container")
    assert what_to_do("the moon is full") == ""
