"""A typing mistake is answered with what was meant, and no word at all with the help."""

from __future__ import annotations

import re

import pytest
from tests.conftest import Run

from zombiescope.members.rooms import names


@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        (("diagnos",), "invalid choice: 'diagnos'; did you mean diagnose?"),
        (("diagnose", "--secods", "3"), "unrecognized arguments: --secods; did you mean --seconds?"),
        (("diagnose", "--secods=3"), "unrecognized arguments: --secods=3; did you mean --seconds?"),
        (("diagnose", "--format", "jsn"), "argument --format: invalid choice: 'jsn'; did you mean json?"),
        (
            ("fleet", "status", "--ray", "auto"),
            "unrecognized arguments: --ray auto; --ray is an option of "
            + ", ".join(f"`zombiescope fleet {verb}`" for verb in ("compare", "jobs", "flame", "ask")),
        ),
        (("fleet", "status", "--rya", "auto"), "unrecognized arguments: --rya auto; did you mean --ray?"),
        (("lab", "rnu"), "invalid choice: 'rnu'; did you mean run?"),
        (("diagnose", "--qqqqq"), "unrecognized arguments: --qqqqq"),
    ],
)
def test_what_is_near(argv: tuple[str, ...], answer: str, zombiescope: Run) -> None:
    said = zombiescope(*argv, expect=2).stderr.splitlines()
    assert len(said) == 2 and said[-1].endswith(answer)
    verb = f" {argv[0]}" if argv[0] in names("cli") else ""
    assert said[0] == f"see `zombiescope{verb} --help`"


def test_what_was_typed_does_nothing_to_the_terminal(zombiescope: Run) -> None:
    said = zombiescope("diagnose", "--se\udcffc\x1b[31m\n", expect=2).stderr
    assert "\x1b" not in said and said.splitlines()[-1].startswith("zombiescope: error: unrecognized arguments: --se")


def test_nothing_near_lists_what_there_is(zombiescope: Run) -> None:
    assert "(choose from 'agent', 'audit'" in zombiescope("xyzzy", expect=2).stderr


def test_no_word_at_all_shows_the_first_steps_on_one_small_screen(zombiescope: Run) -> None:
    said = zombiescope(expect=0).stdout
    assert set(names("cli")) <= set(re.findall(r"[a-z]+", said)), "every verb is named"
    lines = said.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    for verb in re.findall(r"^  zombiescope ([a-z]+) ", said, re.MULTILINE):
        assert f"\n    {verb} " in zombiescope("--help", expect=0).stdout
