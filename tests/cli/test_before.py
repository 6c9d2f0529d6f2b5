"""`before` as a user meets it: on recordings on disk, of a made-up node and of this one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tests.compare.sick_node import T0, sick_node
from tests.conftest import CANNOT, COMMAND, Run
from tests.recorder.written import Sampled, written

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline

pytestmark = pytest.mark.e2e
MARKS = (310.0, 800.0, 1130.0, 1600.0, 2105.0)
RESET = "ena 0000:00:05.0 ens5: Trigger reset is on"


def on_disk(folder: Path, marks: tuple[float, ...], said: str) -> str:
    """A recorder's folder: forty minutes of a noisy node whose agent walks before each mark."""
    timeline, capture = sick_node(3, marks)
    frames = capture.frames
    stacks = [
        ";".join(it.name for it in frames[place] if not it.kernel)
        + "|"
        + ";".join(it.name for it in frames[place] if it.kernel)
        for place in range(len(frames))
    ]
    samples = Sampled(capture.at / 1e9 - T0, capture.cpu, capture.who, capture.stack)
    lines = [
        Reading(what="kernel_log", subject="node", value=3, at=T0 + at, source="/dev/kmsg", text=said) for at in marks
    ]
    whats = timeline.whats()
    written(
        folder,
        samples,
        whos=[(who.pid, who.comm, 0) for who in capture.whos],
        stacks=stacks,
        readings=[*lines, *_readings(timeline)],
        gives={"kmsg": ["kernel_log"], "noise": whats},
        looks=np.arange(0.0, 2400).tolist(),
        hz=50,
    )
    return str(folder)


def _readings(timeline: Timeline) -> list[Reading]:
    return [
        one.reading(place) for it in timeline.whats()[:8] for one in (timeline.series(it),) for place in range(len(one))
    ]


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> str:
    return on_disk(tmp_path_factory.mktemp("sick") / "rec", MARKS, RESET)


def test_before_each_reset_the_culprit_is_named_first(sick: str, zombiescope: Run) -> None:
    told = zombiescope("before", sick, "--seconds", "15", expect=1).stdout
    assert "5 events: the 15 s before each" in told and "driver ena" in told
    rows = [line for line in told.splitlines() if line.startswith(("process:", "function:"))]
    assert rows[0].startswith("process:agent[4242]") and rows[1].startswith("function:walk_all")
    assert "5 of 5" in rows[0] and "100% of it in agent[4242]" in rows[1]


def test_json_carries_its_evidence_and_is_the_same_each_time(sick: str, zombiescope: Run) -> None:
    first, again = (
        zombiescope("before", sick, "--event", "Trigger r.set", "--seconds", "15", "--format", "json", expect=1).stdout
        for _ in range(2)
    )
    assert first == again
    shape = json.loads(first)
    assert [round(it["at"] - T0) for it in shape["events"]] == [round(at) for at in MARKS]
    assert {it["says"] for it in shape["events"]} == {RESET}
    process = shape["rises"][0]
    assert (process["subject"], process["significant"], process["events"]) == ("process:agent[4242]", True, 5)
    assert process["before"] == pytest.approx(np.mean(process["by_event"]))
    assert shape["enough_events"] and shape["groups_of_events"] == 5 and shape["quiet_windows"] > 40


def test_times_one_knows_of_and_times_without_any_cause(sick: str, zombiescope: Run) -> None:
    at = [word for mark in MARKS for word in ("--at", f"{T0 + mark:.3f}")]
    assert "process:agent[4242]" in zombiescope("before", sick, *at, "--seconds", "15", expect=1).stdout
    other = [word for mark in (450.0, 700.0, 1350.0, 1850.0, 2300.0) for word in ("--at", f"{T0 + mark:.3f}")]
    told = zombiescope("before", sick, *other, "--seconds", "15", expect=0).stdout
    assert "nothing was higher before the events than chance explains" in told


def test_too_few_events_and_none(sick: str, zombiescope: Run) -> None:
    told = zombiescope("before", sick, "--at", f"{T0 + MARKS[0]:.3f}", "--seconds", "15", expect=3).stdout
    assert "too few events to rule out chance" in told and "process:agent[4242]" in told
    assert "no events: nothing to compare" in zombiescope("before", sick, "--event", "never said", expect=3).stdout
    assert (
        json.loads(zombiescope("before", sick, "--event", "never", "--format", "json", expect=3).stdout)["rises"] == []
    )


def test_mistakes(sick: str, tmp_path: Path, zombiescope: Run) -> None:
    text = tmp_path / "folded"
    text.write_text("main;f 3\n")
    for argv, says in (
        ((sick, "--event", "("), "neither a sign nor a valid regex"),
        ((sick, "--event", "x", "--at", "3"), "not both"),
        ((sick, "--seconds", "0"), "more than 0"),
        ((sick, "--seconds", "120"), "quiet windows"),
        ((str(text),), "give the times of the events with --at"),
    ):
        done = zombiescope("before", *argv, expect=2)
        assert says in done.stderr.splitlines()[-1] and not done.stdout


PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long turns;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void known_function(void) { for (unsigned long i = 0; i < 20000000; i++) turns++; }
int main(int count, char **words) {
  char line[100];
  int log = open("/dev/kmsg", O_WRONLY);
  for (int turn = 0; turn < 5; turn++) {
    usleep(5300000 + turn * 150000);
    for (double end = now() + 1.2; now() < end;) known_function();
    snprintf(line, sizeof line, "%s %d\\n", words[1], turn);
    if (write(log, line, strlen(line)) < 0) return 1;
  }
  sleep(60);
}
"""


@pytest.mark.kernel
@pytest.mark.long
def test_live_a_worker_that_bursts_before_each_mark_is_named(tmp_path: Path, zombiescope: Run) -> None:
    """Five bursts of 1.2 s in 42 s, each followed by a mark in the kernel's log; the machine does what else it does."""
    if not os.access("/dev/kmsg", os.W_OK) or shutil.which("gcc") is None:
        pytest.skip(CANNOT + "write to the kernel's log, or compile the worker")
    marker, worker = f"zslab-mark-{os.getpid()}", tmp_path / "zslab-burster"
    (tmp_path / "worker.c").write_text(PROGRAM)
    kept = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
    subprocess.run(["gcc", "-O1", *kept, "-o", worker, tmp_path / "worker.c"], check=True)
    rec = str(tmp_path / "rec")
    recorder = subprocess.Popen(
        [COMMAND, "record", rec, "--for", "42s", "--hz", "99"], stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(3)
        burster = subprocess.Popen([worker, marker])
        try:
            _, said = recorder.communicate(timeout=120)
        finally:
            burster.kill()
            burster.wait()
    finally:
        recorder.kill()
        recorder.wait()
    if "no stacks" in said:
        pytest.skip(CANNOT + "sample stacks")
    told = zombiescope("before", rec, "--event", marker, "--seconds", "1", expect=1).stdout
    # It ran in nothing but that function, so which of the two comes first is a matter of a sample.
    rows = [line for line in told.splitlines() if line.startswith(("process:", "function:"))]
    function, process = sorted(rows[:2])
    assert process.startswith("process:zslab-burster["), told
    assert function.startswith("function:known_function") and "of it in zslab-burster[" in function, told
