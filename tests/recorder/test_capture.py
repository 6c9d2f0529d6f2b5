"""The recorder as it is used: killed at any moment, stopped and continued, on a full disk, stopped by a signal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import CANNOT, COMMAND, Run
from tests.waiting import until

from zombiescope.core import Span
from zombiescope.recorder.capture import FLUSH
from zombiescope.recorder.replay import opened

pytestmark = [pytest.mark.e2e, pytest.mark.beside]


@contextmanager
def recording(folder: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([COMMAND, "record", str(folder), *argv], stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: list(folder.glob("*/head")) or process.poll() is not None)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.alone  # it measures time
@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_any_moment_it_opens_and_lost_two_seconds_at_the_most(tmp_path: Path, kills: int) -> None:
    def recorded_and_killed(kill: int) -> tuple[Path, float]:
        folder = tmp_path / str(kill)
        with recording(folder) as process:
            time.sleep(random.uniform(0.0, 3.0))
            process.kill()
            return folder, time.time()

    # Each sleeps nearly all of its time; they are looked at when all are dead.
    with ThreadPoolExecutor(4) as threads:
        ends = list(threads.map(recorded_and_killed, range(kills)))
    for folder, killed in ends:
        recorded = opened(str(folder))
        timeline = recorded.timeline()
        assert killed - timeline.span.end < FLUSH + 0.3, "and what the flush itself took"
        assert not recorded.damage and len(timeline.series("cpu_idle_seconds_total", "cpu:0"))
        assert not [path for path in folder.rglob("*") if path.suffix == ".part"]
        assert list(folder.glob("*/head")), "as it was captured"


def test_what_a_killed_recorder_left_is_settled_by_the_next(tmp_path: Path) -> None:
    with recording(tmp_path) as process:
        until(lambda: len(opened(str(tmp_path)).timeline().series("context_switches_total")) > 5)
        process.kill()
    (left,) = tmp_path.glob("*/head")
    before = opened(str(tmp_path)).timeline()
    with recording(tmp_path) as process:
        until(lambda: not left.exists())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    settled = opened(str(tmp_path))
    after = settled.timeline(Span(before.span.start - 5, before.span.end))
    assert not settled.damage
    name = "context_switches_total"
    assert after.series(name).values.tolist() == before.series(name).values.tolist()
    assert len(before.samples().at) == len(after.samples().at) or not before.series("samples_total").latest.value


def test_it_needs_the_standard_library_only_and_little_memory(tmp_path: Path) -> None:
    with recording(tmp_path, "--set", "kmsg.PAST=0") as process:
        until(lambda: opened(str(tmp_path)).timeline().looked("load1"))
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        resident = sum(int(status[kind].split()[0]) for kind in ("RssAnon", "RssFile"))
    loaded = {Path(line.split()[-1]).name.split(".")[0] for line in maps.splitlines() if ".so" in line}
    assert not loaded & {"_multiarray_umath", "libarrow"} and "libc" in loaded
    if "_ssl" not in loaded:  # asyncio brings it, where systemd's bus answers
        assert resident < 25_000 and "libcrypto" not in loaded


def test_a_signal_ends_it_cleanly_and_it_goes_on_in_the_same_folder(tmp_path: Path, zombiescope: Run) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with recording(tmp_path) as process:
            time.sleep(1.2)
            process.send_signal(number)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 0 and "recorded" in said and "of one core" in said
        assert not list(tmp_path.glob("*/head")) and list(tmp_path.glob("*/series.arrows")), "the last is settled, too"
    told = json.loads(zombiescope("info", str(tmp_path), "--format", "json", expect=0).stdout)
    assert told["segments"] == 2 and told["rows"]["series"] > 100 and not told["damage"]
    first, again = (zombiescope("diagnose", str(tmp_path), "--format", "json").stdout for _ in range(2))
    assert first == again and json.loads(first)["kernel"] == told["kernel"]
    assert "segments" in zombiescope("info", str(tmp_path), expect=0).stdout


def test_a_second_recorder_is_refused(tmp_path: Path, zombiescope: Run) -> None:
    with recording(tmp_path):
        assert "another recorder" in zombiescope("record", str(tmp_path), "--for", "1s", expect=2).stderr


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
def test_stopped_and_continued_the_gap_is_a_gap(tmp_path: Path, zombiescope: Run, seconds: int) -> None:
    with recording(tmp_path) as process:
        time.sleep(1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        time.sleep(1.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    (gap,) = json.loads(zombiescope("info", str(tmp_path), "--format", "json").stdout)["gaps"]
    assert seconds - 0.5 < gap["seconds"] < seconds + 2


HUNG = """
EVERY = 1.0
GIVES = ("hung_seconds",)


def read(host):
    with open({fifo!r}) as file:  # nobody ever writes to it
        file.read()
    yield
"""


GOES_ON = ("cpu_idle_seconds_total", "samples_total")


def test_a_probe_that_hangs_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo, outside = tmp_path / "fifo", tmp_path / "mine"
    (outside / "probes").mkdir(parents=True)
    os.mkfifo(fifo)
    (outside / "probes" / "hung.py").write_text(HUNG.format(fifo=str(fifo)))
    monkeypatch.setenv("ZOMBIESCOPE_PATH", str(outside))
    folder = str(tmp_path / "rec")
    spin = ["nice", "sh", "-c", "while :; do :; done"]  # an idle machine has nothing to sample
    with recording(tmp_path / "rec") as process, subprocess.Popen(spin) as busy:
        until(lambda: len(opened(folder).timeline().looks("hung_seconds")))
        until(lambda: opened(folder).timeline().looked("load1", times=2))
        until(lambda: min(opened(folder).timeline().looks(what).span.seconds for what in GOES_ON) > 5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        busy.kill()
        assert process.returncode == 0
    timeline = opened(folder).timeline()
    hung = timeline.looks("hung_seconds")
    assert len(hung) and not timeline.looked("hung_seconds")
    assert (hung.latest.text, hung.latest.source) == ("no answer in 5 s", "probe hung")
    for what in GOES_ON:  # whoever waited for the probe would wait for five seconds
        looks = timeline.looks(what)
        assert looks.values.all() and np.diff(looks.at).max() < 5, f"{what} goes on without a gap"
    assert timeline.looked("load1", times=2) and timeline.looked("uptime_seconds"), "the others are read, too"
    if timeline.series("samples_total").latest.value:
        assert np.diff(np.unique(timeline.samples().at // 10**9)).max() < 5, "and the program is sampled all the time"


def online(cpu: int, on: bool) -> None:
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(on)))


@pytest.mark.kernel
@pytest.mark.alone
@pytest.mark.long
def test_a_core_goes_away_and_comes_back(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    try:
        online(cpu, False)
    except OSError as error:
        pytest.skip(f"{CANNOT}take core {cpu} away: {error.strerror}")
    online(cpu, True)
    try:
        with recording(tmp_path) as process:
            time.sleep(3)
            online(cpu, False)
            away = time.time()
            time.sleep(3)
            online(cpu, True)
            back = time.time()
            time.sleep(22)  # it looks for cores every ten seconds, and the second time notices
            with subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]) as busy:
                time.sleep(2)
                busy.kill()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
            assert process.returncode == 0
    finally:
        online(cpu, True)
    timeline = opened(str(tmp_path)).timeline()
    ticks = [timeline.series(f"cpu_{mode}_seconds_total", f"cpu:{cpu}").at for mode in ("idle", "user", "system")]
    assert min(it[0] for it in ticks) < away and max(it[-1] for it in ticks) > back + 1
    assert np.diff(timeline.looks("cpu_idle_seconds_total").at).max() < 2
    if timeline.series("samples_total").latest.value:
        assert len(timeline.samples(Span(back, back + 60), cpu=cpu).at), "it is sampled again"


def test_as_a_copied_folder_it_opens_anywhere(tmp_path: Path, zombiescope: Run) -> None:
    with recording(tmp_path / "rec") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    os.rename(tmp_path / "rec", tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "lock").unlink()
    assert json.loads(zombiescope("diagnose", str(tmp_path / "elsewhere"), "--format", "json").stdout)["verdicts"]
