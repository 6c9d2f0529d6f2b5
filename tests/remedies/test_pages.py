"""The playbook and the page on fixing: every remedy is in both, and no name in them is made up."""

from __future__ import annotations

import re

import pytest
from tests.conftest import PROJECT

from zombiescope.members.rooms import healthy, names


@pytest.mark.parametrize("page", ["playbook.md", "undo.md"])
def test_every_remedy_is_told_of_and_every_name_exists(page: str) -> None:
    text = (PROJECT / "docs" / page).read_text()
    assert set(names("remedies")) <= set(re.findall(r"`([a-z_]+)`", text))
    known = {name for room in ("signs", "remedies", "cli") for name in names(room)}
    assert set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text)) - {"smp_affinity_list"} <= known
    assert set(re.findall(r"zombiescope ([a-z]+)\b", text)) <= set(names("cli"))
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PROJECT / "docs" / target).exists(), target


def test_the_playbook_gives_each_remedy_to_a_sign_that_it_cures() -> None:
    rows = [line.split("|") for line in (PROJECT / "docs/playbook.md").read_text().splitlines() if line[:2] == "| "]
    told = [(re.findall(r"`(\w+)`", row[2]), re.findall(r"`(\w+)`", row[3])) for row in rows if len(row) == 7]
    cures = {name: set(remedy.CURES) for name, remedy in healthy("remedies").items()}
    for signs, remedies in told:
        assert all(cures[remedy] & set(signs) for remedy in remedies), (signs, remedies)
    assert {remedy for _, remedies in told for remedy in remedies} == set(cures)
