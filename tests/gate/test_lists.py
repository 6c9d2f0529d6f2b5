"""The allow-list and the baseline: what is accepted, for how long, and what is objected to in the baseline itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from tests.gate.images import judged, sick

from zombiescope.core import UserError
from zombiescope.gate._lists import accept, read_allowed, read_baseline
from zombiescope.gate._objection import Ruling

TODAY = date(2026, 11, 16)


def entry(rule: str, subject: str, **more: str) -> str:
    lines = [f'rule = "{rule}"', f'subject = "{subject}"', *(f"{key} = {value}" for key, value in more.items())]
    return "\n".join(["[[accept]]", *lines, ""])


def accepted(folder: Path, *entries: str, strict: bool = False) -> dict[str, Ruling]:
    baseline = folder / "baseline.toml"
    baseline.write_text("\n".join(entries))
    found = list(judged(sick(folder / "root"), strict=strict).values())
    return {it.rule: it for it in accept(found, read_baseline(str(baseline)), TODAY, strict=strict)}


GOOD = {"reason": '"it is known"', "expires": "2027-01-31"}


def test_what_is_accepted_opens_the_gate_and_keeps_its_reason(tmp_path: Path) -> None:
    told = accepted(tmp_path, entry("endless_restart", "unit:ecs.*", **GOOD))
    (objection,) = told["endless_restart"].objections
    assert told["endless_restart"].state == "pass" and objection.accepted is not None
    assert (objection.accepted.reason, objection.accepted.expires) == ("it is known", "2027-01-31")
    assert told["agent_without_use"].state == "fail", "the same subject under another rule is another matter"
    assert told["baseline"].state == "pass" and told["baseline"].says == "entries in the baseline: 1; used: 1"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({**GOOD, "expires": "2026-11-15"}, "it expired on 2026-11-15"),
        ({**GOOD, "reason": '" "'}, "it has no reason"),
        ({"expires": "2027-01-31"}, "it has no reason"),
        ({"reason": '"x"'}, "it has no expiry date"),
    ],
)
def test_an_entry_without_reason_or_end_accepts_nothing_and_is_reported(
    tmp_path: Path, more: dict[str, str], why: str
) -> None:
    told = accepted(tmp_path, entry("endless_restart", "unit:ecs.service", **more))
    (complaint,) = told["baseline"].objections
    assert told["baseline"].state == "fail" and why in complaint.says and complaint.where.endswith("baseline.toml")
    assert told["endless_restart"].state == "fail" and not told["endless_restart"].objections[0].accepted


def test_the_last_day_still_counts(tmp_path: Path) -> None:
    told = accepted(tmp_path, entry("endless_restart", "unit:ecs.service", reason='"x"', expires=str(TODAY)))
    assert told["endless_restart"].state == "pass"


def test_a_rule_that_does_not_exist_and_an_entry_that_is_idle(tmp_path: Path) -> None:
    told = accepted(
        tmp_path, entry("endles_restart", "x", **GOOD), entry("endless_restart", "unit:gone.service", **GOOD)
    )
    said = [(it.level, it.says) for it in told["baseline"].objections]
    assert said[0][0] == "error" and "'endles_restart' is not a rule" in said[0][1]
    assert said[1] == ("note", "entry 2 is not needed: no objection matches it")


def test_who_is_strict_is_so_with_an_idle_entry_too(tmp_path: Path) -> None:
    told = accepted(tmp_path, entry("endless_restart", "unit:gone.service", **GOOD), strict=True)
    assert told["baseline"].state == "fail"


ACCEPT, ALLOW = "[[accept]]\nrule='x'\n", "[[allow]]\n"
MISTAKES = [
    (read_baseline, "[[accept]\n", "not valid TOML"),
    (read_baseline, "[[accept]]\nrule = 3\nsubject = 'x'\n", "needs a rule and a subject"),
    (read_baseline, ACCEPT, "needs a rule and a subject"),
    (read_baseline, f"{ACCEPT}subject='y'\nexpires='2027-01-01'\n", "expires must be a date"),
    (read_baseline, f"{ACCEPT}subject='y'\nuntil=2027-01-01\n", "unknown setting until"),
    (read_baseline, "accept = 3\n", "a list of [[accept]]"),
    (read_baseline, "units = []\n", "unknown setting units"),
    (read_allowed, f"{ALLOW}owner='x'\n", "an entry needs a unit"),
    (read_allowed, f"{ALLOW}unit='x'\nowner=3\n", "are texts"),
    (read_allowed, f"{ALLOW}unit='x'\nreview_by='2027-01-01'\n", "review_by must be a date"),
    (read_allowed, f"{ALLOW}unit='x'\nreview_by=2027-01-01T00:00:00\n", "review_by must be a date"),
    (read_allowed, f"{ALLOW}unit='x'\nuntil=2027-01-01\n", "unknown setting until"),
    (read_allowed, "allow = 3\n", "write entries as [[allow]]"),
]


@pytest.mark.parametrize(("read", "text", "why"), MISTAKES)
def test_a_list_that_is_none_is_a_mistake(tmp_path: Path, read: Callable[[str], object], text: str, why: str) -> None:
    (tmp_path / "list.toml").write_text(text)
    with pytest.raises(UserError) as error:
        read(str(tmp_path / "list.toml"))
    assert why in str(error.value) and str(tmp_path) in str(error.value)


def test_a_list_that_is_a_fifo_or_a_device_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(UserError, match=r"not a regular file|is a directory"):
            read_allowed(str(path))


@pytest.mark.parametrize(
    "text", ["units = 3", "units = [3]", "", "unit = ['x']", "\xff", "units = ['" + "x" * (2 << 20)]
)
def test_an_allow_list_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="latin-1")
    with pytest.raises(UserError):
        read_allowed(str(tmp_path / "a.toml"))


def test_an_allow_list(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("units = ['a.service', 'b-*.timer']  # ours\n")
    assert [it.unit for it in read_allowed(str(tmp_path / "a.toml"))] == ["a.service", "b-*.timer"]
    with pytest.raises(UserError, match="no such file"):
        read_allowed(str(tmp_path / "none.toml"))
