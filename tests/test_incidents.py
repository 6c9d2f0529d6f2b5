"""The catalogue of incidents: seventy rows, every sign and scenario of it exists, its sums are those of its rows."""

from __future__ import annotations

import re

from tests.conftest import PROJECT, Run
from tests.kernels.faults import FAULTS

from zombiescope.knowledge.symptoms import alike, symptoms
from zombiescope.members.rooms import names

PAGE = (PROJECT / "docs" / "incidents.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in re.findall(r"^\| \d+ \|.*$", PAGE, re.MULTILINE)]


def proof(row: list[str]) -> str:
    return row[5].strip(" |") if len(row) > 5 else ""


def test_seventy_rows_in_order() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 71))


def test_the_sums_are_those_of_the_rows() -> None:
    symptom = [row for row in ROWS if "symptom only" in row[4]]
    missing = [row for row in ROWS if row[4].startswith("not named")]
    named = [row for row in ROWS if row not in symptom and row not in missing]
    said = re.search(
        r"\*\*(\d+) are named\*\* by their root\s+cause, (\d+) show a symptom only, (\d+) (?:is|are) not named", PAGE
    )
    assert said and [int(it) for it in said.groups()] == [len(named), len(symptom), len(missing)]
    assert all(proof(row) for row in named) and not any(proof(row) for row in (*symptom, *missing))


def test_every_sign_and_every_scenario_exists() -> None:
    signs, scenarios = set(names("signs")), set(names("lab"))
    assert {it for row in ROWS for it in re.findall(r"signs/(\w+)\.md", row[4])} <= signs
    assert {it for row in ROWS for it in re.findall(r"lab run (\w+)", proof(row))} <= scenarios
    assert {proof(row).partition(" ")[0] for row in ROWS} <= {"", "tests", "reasoning", "`lab", "`make"}
    for row in ROWS:  # made in a guest
        assert set(re.findall(r"faults\.(\w+)", proof(row))) <= set(FAULTS) & set(
            re.findall(r"signs/(\w+)\.md", row[4])
        )


def test_what_is_proved_by_tests_has_a_test_of_that_sign() -> None:
    texts = "".join(path.read_text() for path in (PROJECT / "tests" / "signs").glob("test_*.py"))
    for row in ROWS:
        if proof(row) == "tests":
            (sign,) = re.findall(r"signs/(\w+)\.md", row[4])
            assert re.search(rf"\b{sign}\b", texts), row


def test_the_table_of_symptoms_is_that_of_the_command() -> None:
    table = PAGE[PAGE.index("| you see |") : PAGE.index("## The seventy")]
    rows = re.findall(r"^\| (.+?) \| (\[.+) \|$", table, re.MULTILINE)
    shown = {(seen.replace('"', "'"), tuple(re.findall(r"\[(\w+)\]", signs))) for seen, signs in rows}
    assert shown == {(it.seen, it.signs) for it in symptoms()} and len(shown) >= 15
    assert {sign for it in symptoms() for sign in it.signs} <= set(names("signs"))


def test_words_of_people_on_call_find_their_sign() -> None:
    cases = {
        "5 s DNS": "lost_packets",
        "NotReady flaps": "disk_stall",
        "exec hangs": "dead_mount",
        "200 ms jitter": "long_softirq",
        "too many open files": "table_full",
        "fsync takes 20 seconds": "sync_storm",
    }
    for words, sign in cases.items():
        assert any(sign in it.signs for it in alike(words)[:2]), words
    assert alike("zzz") == []


def test_the_command(zombiescope: Run) -> None:
    said = zombiescope("explain", "--symptom", "exec hangs", expect=0).stdout
    assert "dead_mount\tA file system is mounted" in said
    assert "no symptom like that" in zombiescope("explain", "--symptom", "zzz", expect=2).stderr
