"""Any part of a recording of a real fault gives what a look of that time gave: no check breaks, nobody else is accused.

Ten faults are recorded, each with two looks beside it, whose times are then read from the recording; and fifty random
parts of each. `make test-long` runs it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.conftest import CANNOT, COMMAND

from zombiescope.core import Case, Span, UserError
from zombiescope.diagnosis.examine import examine
from zombiescope.lab._scenario import missing
from zombiescope.members.rooms import healthy
from zombiescope.places.own_folders import LAB_ENVIRONMENT
from zombiescope.recorder.replay import Recording, opened

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups")]
FAULTS = (
    *("zombie_walk", "crash_loop", "throttled", "fork_storm", "kernel_lock"),
    *("proc_walker", "realtime_hog", "udp_drops", "quiet", "compile"),
)
SECONDS, LOOK = 45.0, 10.0
PARTS, SHORTEST, LONGEST = 50, 8.0, 30.0
UNNAMED = 0.01  # of the samples: whoever is sampled has at least a name
SAME = 0.9  # of the signs of a look: what is rare falls on one side or the other of its edges


def recorded(scenario: ModuleType, folder: Path) -> list[dict[str, Any]]:
    """A recording of the fault; what the looks beside it said."""
    looks = []
    with scenario.run(1.0):
        environ = os.environ | {LAB_ENVIRONMENT: "1"}  # with which systemd is asked, where the fault has its own
        time.sleep(1.0)
        argv = [str(COMMAND), "record", str(folder), "--for", f"{SECONDS:g}s", "--hz", "99"]
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL, env=environ) as recorder:
            for _ in range(2):
                time.sleep(8.0)
                look = [str(COMMAND), "diagnose", "--seconds", f"{LOOK:g}", "--format", "json"]
                looks.append(json.loads(subprocess.run(look, stdout=subprocess.PIPE, env=environ, check=False).stdout))
            assert recorder.wait() == 0
    return looks


def told(recording: Recording, span: Span | None) -> Case:
    timeline = recording.timeline(span)
    assert len(timeline.subjects("cpu_idle_seconds_total", "cpu")) == os.cpu_count(), "of N cores"
    return examine(timeline, node=str(recording.meta["node"]), kernel=str(recording.meta["kernel"]))


def accused(case: Case) -> set[str]:
    return {it.sign for it in case.root_causes}


@pytest.mark.parametrize("name", FAULTS)
def test_a_part_of_a_recording_is_as_a_look(name: str, tmp_path: Path) -> None:
    scenario = healthy("lab")[name]
    if lacking := missing(scenario.NEEDS):
        pytest.skip(f"{CANNOT}make it: {'; '.join(lacking)}")
    try:
        looks = recorded(scenario, tmp_path / "rec")
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    recording = opened(str(tmp_path / "rec"))
    whole = told(recording, None)
    blind = {it.sign for it in whole.verdicts if it.state == "blind"}
    timeline = recording.timeline()
    samples = timeline.samples()
    unnamed = [place for place, it in enumerate(samples.whos) if it.comm == "?"]
    if not len(
        timeline.series("recorder_trouble")
    ):  # else it is said which records were left out: 13,000 forks a second
        assert np.isin(samples.who, unnamed).mean() <= UNNAMED
    allowed = accused(whole) | {one for it in (scenario.TRUTH, *scenario.TRUTH.also) for one in it.chain}
    allowed |= {it["sign"] for look in looks for it in look["root_causes"]}
    drawn = random.Random(name)
    named, wrong = 0, Counter[str]()
    for _ in range(PARTS):
        start = recording.span.start + drawn.uniform(2.0, SECONDS - SHORTEST - 2.0)
        end = min(start + drawn.uniform(SHORTEST, LONGEST), recording.span.end)
        case = told(recording, Span(start, end))
        assert not [it for it in case.verdicts if it.state == "broken"], (start, end)
        unseen = {it.sign for it in case.verdicts if it.state == "blind"} - blind
        # What is read once a minute has no rate in a part that is shorter.
        assert not {it.sign for it in case.verdicts if it.sign in unseen and "a rate needs two" not in it.says}, unseen
        wrong.update(accused(case) - allowed)
        named += not scenario.TRUTH.root or bool(accused(case) & set(scenario.TRUTH.chain)) or not accused(whole)
    print(f"{name}: the fault named in {named} of {PARTS} parts; others accused: {dict(wrong)}")
    assert not wrong, f"accused in a part, and neither by the whole nor by a look: {wrong}"
    assert named >= SAME * PARTS
    for look in looks:
        span = Span(look["span"]["start"], look["span"]["end"])
        case = told(recording, span)
        states = {it.sign: it.state for it in case.verdicts}
        lived = {it["sign"]: it["state"] for it in look["verdicts"]}
        differ = {it: (lived[it], states[it]) for it in lived if it in states and lived[it] != states[it]}
        assert len(differ) <= (1 - SAME) * len(lived), differ
        assert {it["sign"] for it in look["root_causes"]} & set(scenario.TRUTH.chain) <= accused(case) | set(differ)
        print(f"{name}: of {len(lived)} signs of a look these differ: {differ}")
