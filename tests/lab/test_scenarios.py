"""What scenarios may say beyond what every one must: further truths, the short score, faults that are over."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.lab._bench import order
from zombiescope.lab._litter import others
from zombiescope.lab._scenario import PREFIX, name_for
from zombiescope.lab._steady_load import steady_load
from zombiescope.lab._zombies import memory_folder
from zombiescope.members.rooms import healthy, names

SCENARIOS = healthy("lab")
AROUND = 6.0  # seconds to make a fault, to settle, to examine and to clean up: less than that on an idle machine


@pytest.mark.parametrize("name", SCENARIOS)
def test_further_truths_name_signs_that_exist(name: str) -> None:
    truth, known = SCENARIOS[name].TRUTH, set(names("signs"))
    for also in truth.also:
        assert also.chain and set(also.chain) <= known
        assert not also.also and not also.silent and not also.harmless, "the first one says it for all"
    assert set(truth.harmless) <= known and not set(truth.harmless) & set(truth.silent)


def test_the_short_score_has_faults_controls_and_traps_and_takes_less_than_two_minutes() -> None:
    short = {name: it for name, it in SCENARIOS.items() if getattr(it, "SHORT", False)}
    assert any(not it.TRUTH.root for it in short.values()) and any(it.TRUTH.also for it in short.values())
    assert any(getattr(it, "RECORDED", False) for it in short.values())
    assert sum(it.SECONDS + AROUND for it in short.values()) < 150, "two minutes, as measured, are 110 s of looking"


def test_a_whole_score_takes_sixteen_seconds_a_scenario() -> None:
    """Twelve minutes for 45 of them, sixteen for 60: it grows with what is proved, not with how long each takes."""
    assert sum(it.SECONDS + AROUND for it in SCENARIOS.values()) <= 16 * len(SCENARIOS)


def test_the_order_of_a_score_is_random_and_can_be_had_again() -> None:
    first = order(SCENARIOS, 3, seed=1)
    assert first == order(SCENARIOS, 3, seed=1) != order(SCENARIOS, 3, seed=2)
    assert sorted(first) == sorted(list(SCENARIOS) * 3) != first


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("run", "quiet", "--scale", "nan"), "not a number above 0"),
        (("run", "quiet", "--keep", "-1"), "not a number of seconds above 0"),
        (("run", "quiet", "--keep", "5", "--diagnose"), "--keep excludes --diagnose and --record"),
        (("score", "--runs", "0"), "not a number from 1"),
        (("score", "--beside-load", "96"), "not a number from 1 to 95"),
    ],
)
def test_a_score_of_nothing_is_a_mistake(zombiescope: Run, argv: tuple[str, ...], words: str) -> None:
    assert words in zombiescope("lab", *argv, expect=2).stderr


@pytest.mark.beside
def test_a_load_beside_a_fault_is_one_process_for_each_core_and_ends_with_it() -> None:
    def running() -> dict[int, set[int]]:
        """Our own, by the core that it is bound to."""
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        ours = [int(it) for it in listed if Path(f"/proc/{it}/comm").read_text().startswith(f"{PREFIX}beside")]
        return {pid: os.sched_getaffinity(pid) for pid in ours}

    with steady_load(0.05):
        assert sorted(running().values(), key=min) == [{core} for core in sorted(os.sched_getaffinity(0))]
    assert not running()
    with steady_load(0.0):
        assert not running()


@pytest.mark.kernel
def test_another_lab_at_work_is_noticed_and_ours_is_not() -> None:
    folder = Path(memory_folder())
    with subprocess.Popen(["sleep", "60"]) as somebody:
        theirs, mine = folder / f"{PREFIX}theirs-{somebody.pid}", folder / name_for("mine")
        try:
            theirs.mkdir()
            mine.mkdir()
            assert theirs.name in others() and mine.name not in others()
        finally:
            somebody.kill()
            for path in (theirs, mine):
                path.rmdir()
    assert theirs.name not in others()
