"""Which readings are alarms, that all of them are recorded all the same, and a real recorder that says one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND
from tests.containerd import Containerd

from zombiescope.core import Reading
from zombiescope.recorder import alarms
from zombiescope.recorder.alarms import MOST, Alarms
from zombiescope.recorder.sampling import Fetched, Sample

EXIT, RESTARTS = "container_exit", "unit_restarts_total"


class Recorded:
    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.contents: list[bytes] = []

    def fetched(self, _: str, fetched: Fetched) -> None:
        self.contents.append(fetched.content)

    def sample(self, _: str, sample: Sample) -> None:
        self.readings += sample.readings


class Heard:
    """What was said of these readings, each a sample of its own."""

    def __init__(self) -> None:
        self.said: list[Reading] = []
        self.recorded = Recorded()
        self.alarms = Alarms(self.recorded, self.said.append)
        self.alarms.told, self.alarms.events = frozenset((EXIT, RESTARTS)), frozenset((EXIT,))

    def of(self, what: str, *values: float, subject: str = "unit:ecs.service") -> list[float]:
        before = len(self.said)
        for value in values:
            one = Reading(what=what, subject=subject, value=value, at=1.0, source="a file")
            self.alarms.sample("probe", Sample(1.0, (one,), (), 0.0))
        return [it.value for it in self.said[before:]]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.setattr(alarms, "APART", 0.0)
    return Heard()


def test_an_end_with_an_exit_code_and_a_count_that_rises(heard: Heard) -> None:
    assert heard.of(EXIT, 0.0, 5.0, 137.0) == [5.0, 137.0]
    assert heard.of(RESTARTS, 7.0, 7.0, 8.0, 2.0, 3.0) == [8.0, 3.0], "what was counted before is no news"
    assert heard.of(RESTARTS, 1.0, subject="unit:other.service") == []
    assert heard.of("load1", 0.0, 99.0) == []
    assert len(heard.recorded.readings) == 11
    heard.alarms.fetched("vmstat", Fetched(1, b"x", 0.0))
    assert heard.recorded.contents == [b"x"]


def test_what_is_remembered_is_bounded(heard: Heard) -> None:
    for number in range(MOST + 100):
        heard.of(RESTARTS, 1.0, subject=f"unit:{number}.service")
    assert len(heard.alarms._last) == MOST
    assert heard.of(RESTARTS, 2.0, subject=f"unit:{MOST + 99}.service") == [2.0]


def test_many_at_once_are_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "APART", 60.0)
    assert Heard().of(EXIT, 1.0, 2.0, 3.0) == [1.0]


@pytest.mark.beside
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason=CANNOT + "mount as nobody")
def test_a_real_recorder_says_that_a_container_crashed(tmp_path: Path) -> None:
    """containerd's file of an end; then nobody reads what the recorder says any more."""
    node = Containerd(tmp_path)
    options = ["--hz", "0", "--alarms", "--set", "container_exits.EVERY=0.5"]
    command = [*node.through, str(COMMAND), "record", str(tmp_path / "rec"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        node.ends(0)
        time.sleep(2.0)
        node.ends(5)
        said = json.loads(process.stdout.readline())
        assert said["alarm"] == EXIT and said["subject"] == f"container:{node.name}" and "exit code 5" in said["text"]
        process.stdout.close()
        time.sleep(alarms.APART)
        node.ends(6)
        time.sleep(2.0)
        assert process.poll() is None, "a reader that has gone ends no recording"
    finally:
        process.terminate()
        process.wait(30)
