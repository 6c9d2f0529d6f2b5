"""How much cache the safe steps of the purge may drop, and which steps those are."""

from __future__ import annotations

import os

import pytest

from zombiescope.remedies import purge_zombies
from zombiescope.treatment.purge_command import RUNGS, budget

GB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "most"), [(4 * GB, 4 * GB // 100), (99 * GB, 99 * GB // 100), (101 * GB, GB), (2048 * GB, GB)]
)
def test_one_percent_of_memory_and_never_more_than_a_gigabyte(
    memory: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"SC_PHYS_PAGES": memory // 4096, "SC_PAGESIZE": 4096}
    monkeypatch.setattr(os, "sysconf", asked.__getitem__)
    assert budget() == most


def test_every_step_of_the_plan_is_one_of_the_command_and_those_that_hurt_come_last() -> None:
    names, risks = [it[0] for it in purge_zombies.RUNGS], [it[1] for it in purge_zombies.RUNGS]
    assert names == list(RUNGS) and risks == ["safe"] * 3 + ["disruptive"] * 3
